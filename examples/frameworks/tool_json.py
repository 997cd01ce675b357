"""A loop of one's own with governed tools, on the JSON of OpenAI's Responses API: no key, no network."""

import asyncio
import json
from typing import Any

from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from capset import Agent, Decision, Kernel, Principal, Request, allow, ask, policy, tool
from capset.definitions.governance.approvals import Answer
from capset_frameworks.tool_json import ToolJson


@policy
async def large_sums(request: Request) -> Decision:
    """Ask for an approval of every sum above 100."""
    return ask("more than 100") if request.arguments and request.arguments["sum"] > 100 else allow()


@tool(effect="external", policies=[large_sums])
async def pay(sum: int) -> str:
    """Pay a sum."""
    return f"paid {sum}"


def call(id: str, arguments: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(type="function_call", call_id=id, name="pay", arguments=arguments)


def say(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[content])


SCRIPT = [
    [call("a", json.dumps({"sum": 7})), call("b", json.dumps({"sum": 500})), call("c", '{"sum": 1')],
    [say("Two of three are paid.")],
]


async def next_output(step: int, **request: Any) -> list[Any]:
    """Stand in for a model: ``(await client.responses.create(model="gpt-5.4", **request)).output``."""
    return list(SCRIPT[step])


async def main() -> None:
    clerk = Agent("clerk", system_prompt="Pay only what was ordered.", tools=[pay])
    async with Kernel(store="sqlite:///capset.db") as kernel, kernel.open(clerk, principal=Principal("ada")) as session:
        tools = ToolJson(session, "openai", defers=True)
        items: list[Any] = [{"role": "user", "content": "Pay 7 for the paper and 500 for the desk."}]
        for step in range(len(SCRIPT)):
            output = await next_output(
                step, input=items, instructions=await tools.system_text(), tools=await tools.definitions()
            )
            answers = await tools.answer(output)
            for waiting, request in answers.waiting.items():
                print("somebody has to approve", waiting)
                await kernel.approvals.decide(request, Answer(approved=True), by=Principal("boss"))
            if answers.waiting:
                answers = await tools.answer(output, previous_results=answers.results)
            items += [*output, *answers.results]
            for result in answers.results:
                print("the model read:", result["output"])
        print(items[-1].content[0].text)
        print("chain holds:", (await kernel.audit.verify()).ok)


asyncio.run(main())
