"""An agent of LlamaIndex with governed tools, on LlamaIndex's mock of a model: no key, no network."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from llama_index.core.agent.workflow import AgentOutput, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

from capset import Agent, Decision, Kernel, Principal, Request, allow, ask, policy, tool
from capset.definitions.governance.approvals import Answer
from capset_frameworks.llama_index import CapsetFunctionAgent, ToolCallSuspended


@policy
async def large_sums(request: Request) -> Decision:
    """Ask for an approval of every sum above 100."""
    return ask("more than 100") if request.arguments and request.arguments["sum"] > 100 else allow()


@tool(effect="external", policies=[large_sums])
async def pay(sum: int) -> str:
    """Pay a sum."""
    return f"paid {sum}"


def answer(messages: Sequence[ChatMessage], **options: Any) -> ChatMessage:
    """Answer as the model: call ``pay`` twice, then say the last word."""
    if messages[-1].role == "tool":
        return ChatMessage(role="assistant", content="Both are paid.")
    calls = [("a", {"sum": 7}), ("b", {"sum": 500})]
    blocks = [ToolCallBlock(tool_call_id=call, tool_name="pay", tool_kwargs=arguments) for call, arguments in calls]
    return ChatMessage(role="assistant", blocks=blocks)


async def main() -> None:
    # A real model would be another LLM: OpenAI(model="gpt-5.4") of llama-index-llms-openai.
    model = MockFunctionCallingLLM(response_generator=answer)
    clerk = Agent("clerk", system_prompt="Pay only what was ordered.", tools=[pay])
    async with Kernel(store="sqlite:///capset.db") as kernel, kernel.open(clerk, principal=Principal("ada")) as session:
        agent = CapsetFunctionAgent(llm=model, session=session, defers=True)
        order = "Pay 7 for the paper and 500 for the desk."
        run = agent.run(user_msg=order)  # pyright: ignore[reportDeprecated]  # the other form, which it cannot tell apart
        async for event in run.stream_events():
            if isinstance(event, ToolCallSuspended):
                print("somebody has to approve", event.tool_name, event.tool_kwargs)
                await kernel.approvals.decide(event.approval, Answer(approved=True), by=Principal("boss"))
                run.ctx.send_event(event.answered())
            elif isinstance(event, ToolCallResult):
                print("the model reads:", event.tool_output.content)
        print(cast("AgentOutput", await run))
        print("chain holds:", (await kernel.audit.verify()).ok)


asyncio.run(main())
