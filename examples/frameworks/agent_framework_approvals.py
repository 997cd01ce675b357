"""An agent of Microsoft's Agent Framework with governed tools, on a scripted client: no key, no network."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from agent_framework import Agent as FrameworkAgent
from agent_framework import (
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

from capset import Agent, Decision, Kernel, Principal, Request, allow, ask, policy, tool
from capset.definitions.governance.approvals import Answer
from capset_frameworks.agent_framework import CapsetProvider


@policy
async def large_sums(request: Request) -> Decision:
    """Ask for an approval of every sum above 100."""
    return ask("more than 100") if request.arguments and request.arguments["sum"] > 100 else allow()


@tool(effect="external", policies=[large_sums])
async def pay(sum: int) -> str:
    """Pay a sum."""
    return f"paid {sum}"


class ScriptedClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """A client that answers with what it was given, in order. A real one would be OpenAIChatClient(model="gpt-5.4")."""

    def __init__(self, *answers: list[Content]) -> None:
        super().__init__()
        self.answers = list(answers)

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse[Any]] | ResponseStream[ChatResponseUpdate, ChatResponse[Any]]:
        async def answer() -> ChatResponse[Any]:
            return ChatResponse(messages=[Message("assistant", list(self.answers.pop(0)))])

        return answer()


async def main() -> None:
    calls = [Content.from_function_call(f"call-{due}", "pay", arguments={"sum": due}) for due in (7, 500)]
    client = ScriptedClient(calls, [Content.from_text("Both are paid.")])
    clerk = Agent("clerk", system_prompt="Pay only what was ordered.", tools=[pay])
    async with Kernel(store="sqlite:///capset.db") as kernel, kernel.open(clerk, principal=Principal("ada")) as session:
        agent = FrameworkAgent(client, name="clerk", context_providers=[CapsetProvider(session, defers=True)])
        conversation = AgentSession()
        response = await agent.run("Pay 7 for the paper and 500 for the desk.", session=conversation)
        answers: list[Content] = []
        for item in response.user_input_requests:
            assert item.function_call is not None
            print("somebody has to approve", item.function_call.name, item.function_call.arguments)
            request = item.additional_properties["approval"]
            await kernel.approvals.decide(request, Answer(approved=True), by=Principal("boss"))
            answers.append(item.to_function_approval_response(True))
        response = await agent.run(Message("user", answers), session=conversation)
        print(response.text)
        print("chain holds:", (await kernel.audit.verify()).ok)


asyncio.run(main())
