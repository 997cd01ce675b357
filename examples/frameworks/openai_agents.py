"""An agent of the OpenAI Agents SDK with governed tools, on the SDK's scripted model: no key, no network."""

import asyncio
import json

from agents import Runner, set_trace_processors
from agents.items import ToolCallOutputItem
from agents.testing.model import ModelStep, ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from capset import Agent, Decision, Kernel, Principal, Request, allow, ask, policy, tool
from capset.definitions.governance.approvals import Answer
from capset_frameworks.openai_agents import CapsetAgent


@policy
async def large_sums(request: Request) -> Decision:
    """Ask for an approval of every sum above 100."""
    return ask("more than 100") if request.arguments and request.arguments["sum"] > 100 else allow()


@tool(effect="external", policies=[large_sums])
async def pay(sum: int) -> str:
    """Pay a sum."""
    return f"paid {sum}"


def call(sum: int, id: str) -> ResponseFunctionToolCall:
    """Have the scripted model call ``pay``."""
    arguments = json.dumps({"sum": sum})
    return ResponseFunctionToolCall(type="function_call", call_id=id, name="pay", arguments=arguments)


def say(text: str) -> ModelStep:
    """Have the scripted model say its last word."""
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ModelStep(
        output=[ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[content])]
    )


async def main() -> None:
    set_trace_processors([])  # by default the SDK sends traces to its maker
    # A real model would be named instead: model="gpt-5.4".
    model = ScriptedModel([ModelStep(output=[call(7, "a"), call(500, "b")]), say("Both are paid.")])
    clerk = Agent("clerk", system_prompt="Pay only what was ordered.", tools=[pay])
    async with Kernel(store="sqlite:///capset.db") as kernel, kernel.open(clerk, principal=Principal("ada")) as session:
        agent = CapsetAgent(name="clerk", model=model, session=session, defers=True)
        result = await Runner.run(agent, "Pay 7 for the paper and 500 for the desk.")
        state = result.to_state()
        for item in result.interruptions:
            request = agent.approval_of(str(item.call_id))
            assert request is not None
            print("somebody has to approve", item.name, item.arguments)
            await kernel.approvals.decide(request, Answer(approved=True), by=Principal("boss"))
            state.approve(item)
        result = await Runner.run(agent, state)
        for item in result.new_items:
            if isinstance(item, ToolCallOutputItem):
                print("the model read:", item.output)
        print(result.final_output)
        print("chain holds:", (await kernel.audit.verify()).ok)


asyncio.run(main())
