"""An agent of Google's ADK with governed tools, on a model that follows a script: no key, no network."""

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

from capset import Agent, Decision, Kernel, Principal, Request, allow, ask, policy, tool
from capset.definitions.governance.approvals import Answer
from capset_frameworks.google_adk import SessionToolset


@policy
async def large_sums(request: Request) -> Decision:
    """Ask for an approval of every sum above 100."""
    return ask("more than 100") if request.arguments and request.arguments["sum"] > 100 else allow()


@tool(effect="external", policies=[large_sums])
async def pay(sum: int) -> str:
    """Pay a sum."""
    return f"paid {sum}"


class Script(BaseLlm):
    """A model that calls ``pay`` twice, then says its last word."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        results = [part for content in llm_request.contents for part in content.parts or [] if part.function_response]
        calls = [FunctionCall(id="a", name="pay", args={"sum": 7}), FunctionCall(id="b", name="pay", args={"sum": 500})]
        parts = [Part(text="Both are paid.")] if results else [Part(function_call=call) for call in calls]
        yield LlmResponse(content=Content(role="model", parts=parts))


async def say(runner: InMemoryRunner, kernel: Kernel, parts: list[Part]) -> list[Part]:
    """Tell the agent something, approve what it asks for, and return the answers to that."""
    answers: list[Part] = []
    message = Content(role="user", parts=parts)
    async for event in runner.run_async(user_id="ada", session_id="1", new_message=message):
        for result in event.get_function_responses():
            print("the model reads:", result.response)
        for call in event.get_function_calls():
            if call.name == "adk_request_confirmation":
                arguments = call.args or {}
                print("somebody has to approve", arguments["originalFunctionCall"]["args"])
                request = arguments["toolConfirmation"]["payload"]["approval"]
                await kernel.approvals.decide(request, Answer(approved=True), by=Principal("boss"))
                confirmed = FunctionResponse(id=call.id, name=call.name, response={"confirmed": True})
                answers.append(Part(function_response=confirmed))
        if event.is_final_response() and event.content and event.content.parts and event.content.parts[0].text:
            print(event.content.parts[0].text)
    return answers


async def main() -> None:
    clerk = Agent("clerk", system_prompt="Pay only what was ordered.", tools=[pay])
    async with Kernel(store="sqlite:///capset.db") as kernel, kernel.open(clerk, principal=Principal("ada")) as session:
        # A real model would be named instead: model="gemini-3.5-flash".
        agent = LlmAgent(name="clerk", model=Script(model="script"), tools=[SessionToolset(session, defers=True)])
        runner = InMemoryRunner(agent, app_name="shop")
        await runner.session_service.create_session(app_name="shop", user_id="ada", session_id="1")
        answers = await say(runner, kernel, [Part(text="Pay 7 for the paper and 500 for the desk.")])
        await say(runner, kernel, answers)
        print("chain holds:", (await kernel.audit.verify()).ok)


asyncio.run(main())
