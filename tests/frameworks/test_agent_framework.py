"""The contract with Microsoft's Agent Framework, on a scripted chat client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Awaitable, Mapping, Sequence
from typing import Any, ClassVar

import pytest
from agent_framework import (
    Agent,
    AgentResponse,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    ResponseStream,
)
from opentelemetry.sdk.trace import TracerProvider

from capset.adapters.frameworks.agent_framework import AGENT_FRAMEWORK, CapsetProvider
from tests.frameworks.contract import AdapterContract
from tests.frameworks.driver import Call, Conversation, Driver, HeldTool, Read, Shown

pytestmark = [pytest.mark.clients]

tracer = TracerProvider().get_tracer("tests")


class ScriptedClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """A chat client that answers with given contents, one list a request, and keeps what it was asked."""

    def __init__(self, *steps: Sequence[Content]) -> None:
        super().__init__()
        self.steps = list(steps)
        self.asked: list[Mapping[str, Any]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse[Any]] | ResponseStream[ChatResponseUpdate, ChatResponse[Any]]:
        self.asked.append({**options, "tools": list(options.get("tools") or []), "messages": list(messages)})
        contents = self.steps.pop(0)
        if stream:
            return self._build_response_stream(_updates(contents))
        return _answer(contents)


async def _answer(contents: Sequence[Content]) -> ChatResponse[Any]:
    return ChatResponse(messages=[Message("assistant", list(contents))])


async def _updates(contents: Sequence[Content]) -> AsyncIterable[ChatResponseUpdate]:
    for content in contents:
        yield ChatResponseUpdate(role="assistant", contents=[content])


class AgentFrameworkDriver(Driver):
    framework = AGENT_FRAMEWORK
    misses: ClassVar = {"streamed": "the framework's function tools have no progress"}

    async def run(self, *steps: Sequence[Call]) -> Conversation:
        self.client = scripted(steps)
        provider = CapsetProvider(self.session, defers=self.defers)
        self.agent = Agent(self.client, name="clerk", context_providers=[provider])
        self.thread = AgentSession()
        self.read: list[Read] = []
        return await self._go("go")

    async def resume(self) -> Conversation:
        answers = [one.to_function_approval_response(True) for one in self.response.user_input_requests]
        return await self._go(Message("user", answers))

    async def _go(self, message: str | Message) -> Conversation:
        with tracer.start_as_current_span("clerk") as span:
            self._trace = f"{span.get_span_context().trace_id:032x}"
            self.response: AgentResponse[Any] = await self.agent.run(message, session=self.thread)
        for content in _contents(self.response):
            if content.type == "function_result":
                self.read.append(Read(str(content.result)))
        waiting = [str(one.additional_properties["approval"]) for one in self.response.user_input_requests]
        output = None if waiting else self.response.text
        return Conversation([_shown(one) for one in self.client.asked], list(self.read), waiting, output)

    async def take(self, name: str) -> HeldTool:
        tools = await CapsetProvider(self.session).tools()
        (found,) = (tool for tool in tools if tool.name == name)

        async def call(arguments: dict[str, Any], id: str) -> Read:
            (content,) = await found.invoke(arguments=arguments, tool_call_id=id)
            return Read(str(content.text))

        return call

    async def run_id(self) -> str | None:
        return self._trace


class TestContract(AdapterContract):
    driver = AgentFrameworkDriver


def scripted(steps: Sequence[Sequence[Call]]) -> ScriptedClient:
    """Return a client that makes these calls, those of one list a step, then says "done"."""
    return ScriptedClient(*(_calls(at, calls) for at, calls in enumerate(steps, 1)), _say("done"))


def _calls(at: int, calls: Sequence[Call]) -> list[Content]:
    return [
        Content.from_function_call(
            f"call-{at}-{place}", name, arguments=arguments if isinstance(arguments, str) else json.dumps(arguments)
        )
        for place, (name, arguments) in enumerate(calls, 1)
    ]


def _say(words: str) -> list[Content]:
    return [Content.from_text(words)]


def _shown(options: Mapping[str, Any]) -> Shown:
    tools = {one.name: one.parameters() for one in options["tools"] if isinstance(one, FunctionTool)}
    return Shown(options.get("instructions", ""), tools)


def _contents(response: AgentResponse[Any]) -> list[Content]:
    return [content for message in response.messages for content in message.contents]
