"""The contract with loops of one's own, on the real SDKs of OpenAI and Anthropic at endpoints that follow a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import anthropic
import httpx2
import pytest
from anthropic.types import MessageParam, ToolParam
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionToolMessageParam
from openai.types.responses import FunctionToolParam
from openai.types.responses.response_input_item_param import FunctionCallOutput
from pydantic import TypeAdapter

from capset import Message, tool
from capset.errors import DefinitionError, InvalidArguments
from capset.wire.calls import progress_of
from capset_frameworks.framework import Framework
from capset_frameworks.tool_json import RequestedCall, ToolAnswers, ToolFormat, ToolJson
from tests.helpers.frameworks.contract import AdapterContract
from tests.helpers.frameworks.driver import Call, Conversation, Driver, HeldTool, Read
from tests.helpers.frameworks.kit import decide, office, paid
from tests.helpers.frameworks.pages import run_page
from tests.helpers.frameworks.providers import ChatLoop, Loop, MessagesLoop, ResponsesLoop
from tests.helpers.kernel.support import desk

LOOPS: tuple[type[Loop], ...] = (ResponsesLoop, ChatLoop, MessagesLoop)


class ResponsesDriver(Driver):
    framework = Framework("openai", "openai", version("openai"))
    loop: ClassVar[type[Loop]] = ResponsesLoop

    async def run(self, *steps: Sequence[Call]) -> Conversation:
        self.provider = self.loop(*steps)
        self.tools = ToolJson(self.session, self.loop.format, defers=self.defers)
        self.response: Any = None
        self.answers: ToolAnswers | None = None
        return await self._go()

    async def resume(self) -> Conversation:
        return await self._go()

    async def _go(self) -> Conversation:
        """Go on from the response whose calls wait, or ask for another."""
        while True:
            if self.response is None:
                self.response = await self.provider.ask(self.tools)
            results = () if self.answers is None else self.answers.results
            self.answers = await self.tools.answer(self.response, previous_results=results, on_event=self._note)
            if self.answers.waiting:
                return self._conversation([*self.answers.waiting.values()], None)
            words = self.provider.keep(self.response)
            self.provider.history += self.answers.results
            is_done = not self.answers.results
            self.response = self.answers = None
            if is_done:
                return self._conversation([], words)

    def _conversation(self, waiting: list[str], output: str | None) -> Conversation:
        read = [Read(text, failed) for text, failed in self.provider.results()]
        return Conversation(self.provider.shown(), read, waiting, output)

    def _note(self, call: RequestedCall, event: Message) -> None:
        if (progress := progress_of(event)) is not None:
            assert call.name == "count"
            self.events.append((progress.fraction, progress.message))

    async def take(self, name: str) -> HeldTool:
        tools = ToolJson(self.session, self.loop.format, defers=self.defers)

        async def call(arguments: dict[str, Any], id: str) -> Read:
            answers = await tools.answer([RequestedCall(id, name, arguments)])
            (read,) = _read(self.loop, answers.results)
            return read

        return call

    async def run_id(self) -> str | None:
        return self.tools.run


class ChatDriver(ResponsesDriver):
    loop = ChatLoop


class MessagesDriver(ResponsesDriver):
    framework = Framework("anthropic", "anthropic", version("anthropic"))
    loop = MessagesLoop


class TestContract(AdapterContract):
    driver = ResponsesDriver


class TestChatContract(AdapterContract):
    driver = ChatDriver


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # the SDK's own, of an input that is no object
class TestMessagesContract(AdapterContract):
    driver = MessagesDriver


@pytest.mark.spec("W16")
@pytest.mark.parametrize("loop", LOOPS)
async def test_definitions_and_results_are_what_the_sdks_take(loop: type[Loop]) -> None:
    definition, result = TYPES[loop.format]
    async with office() as open_desk:
        tools = ToolJson(open_desk.session, loop.format)
        definitions = await tools.definitions()
        answered = await tools.answer([RequestedCall("a", "add", {"a": 1}), RequestedCall("b", "fail", {})])
    for entry in definitions:
        assert TypeAdapter(definition).validate_python(entry) == entry
    for entry in answered.results:
        assert TypeAdapter(result).validate_python(entry)
    assert len(definitions) == 8


@pytest.mark.spec("W16")
@pytest.mark.parametrize("loop", LOOPS)
async def test_a_response_is_taken_as_the_sdk_s_object_and_as_json(loop: type[Loop]) -> None:
    provider = loop([("add", {"a": 1}), ("add", {"a": 2})])
    async with office() as open_desk:
        tools = ToolJson(open_desk.session, loop.format)
        response = await provider.ask(tools)
        calls = tools.calls(response)
        assert [(call.id, call.name) for call in calls] == [("call-1-1", "add"), ("call-1-2", "add")]
        for response_form in (response.model_dump(mode="json"), calls, tuple(calls)):
            assert tools.calls(response_form) == calls
        assert [json.loads(answer.text) for answer in _read(loop, (await tools.answer(calls)).results)] == [2, 3]
        assert (await tools.answer(await provider.ask(tools))).results == [], "words alone need no answer"


@pytest.mark.spec("W16")
@pytest.mark.parametrize(
    ("format", "response"),
    [
        ("openai", {"choices": []}),
        ("openai", "response"),
        ("openai", ["call"]),
        ("openai", [{"type": "function_call", "name": "add", "arguments": "{}"}]),
        ("openai-chat", {"output": []}),
        ("openai-chat", {"choices": [{"message": {"role": "assistant"}}] * 2}),
        ("openai-chat", [{"type": "function", "id": "a"}]),
        ("anthropic", {"content": "words"}),
        ("anthropic", None),
    ],
)
async def test_what_is_no_response_of_the_format_is_refused(format: ToolFormat, response: object) -> None:
    async with office() as open_desk:
        with pytest.raises(InvalidArguments, match=r"was expected.*; got "):
            await ToolJson(open_desk.session, format).answer(response)
        assert await open_desk.records() == []


async def test_a_format_that_is_none_is_refused() -> None:
    async with office() as open_desk:
        with pytest.raises(DefinitionError, match="'openai-chat'"):
            ToolJson(open_desk.session, "openai_chat")  # pyright: ignore[reportArgumentType]


@pytest.mark.spec("W16")
@pytest.mark.parametrize("loop", LOOPS)
async def test_calls_that_are_no_functions_are_left_to_the_loop(loop: type[Loop]) -> None:
    others = [{"type": "custom_tool_call", "call_id": "x"}, SimpleNamespace(type="server_tool_use"), {"type": "custom"}]
    async with office() as open_desk:
        assert (await ToolJson(open_desk.session, loop.format).answer(others)).results == []


@pytest.mark.spec("W16")
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("arguments", ['{"a": 1', "", None, [1], 7])
async def test_arguments_that_are_no_object_are_refused_on_record(loop: type[Loop], arguments: Any) -> None:
    calls = loop().body([("a", "add", {})], None)
    text = json.dumps(calls).replace('"{}"', "{}").replace("{}", json.dumps(arguments), 1)
    async with office() as open_desk:
        answered = await ToolJson(open_desk.session, loop.format).answer(json.loads(text))
        assert "Invalid arguments for 'add'" in answered.answers["a"].text
        assert [(record.outcome, record.causation) for record in await open_desk.records()] == [("invalid", "a")]


@pytest.mark.spec("W2", "W16")
@pytest.mark.parametrize("loop", LOOPS)
async def test_a_tool_that_is_not_in_play_is_refused_on_record(loop: type[Loop]) -> None:
    async with office() as open_desk:
        tools = ToolJson(open_desk.session, loop.format)
        answered = await tools.answer([RequestedCall("a", "note", {"text": "x"}), RequestedCall("b", "nothing", {})])
        assert [answer.error is not None for answer in answered.answers.values()] == [True, True]
        records = {record.causation: record.outcome for record in await open_desk.records()}
        assert records == {"a": "denied", "b": "not_found"}


@pytest.mark.spec("W16")
@pytest.mark.parametrize("loop", LOOPS)
async def test_calls_of_a_response_are_made_side_by_side(loop: type[Loop]) -> None:
    arrived: list[int] = []
    everybody = asyncio.Event()

    @tool(effect="write")
    async def meet(number: int) -> int:
        """Wait for the other."""
        arrived.append(number)
        if len(arrived) == 2:
            everybody.set()
        async with asyncio.timeout(60):
            await everybody.wait()
        return number

    async with desk(meet) as open_desk:
        calls = [RequestedCall("same", "meet", {"number": 1}), RequestedCall("same", "meet", {"number": 2})]
        answered = await ToolJson(open_desk.session, loop.format).answer(calls)
        assert [answer.text for answer in _read(loop, answered.results)] == ["1", "2"], (
            "in order, even where ids are the same"
        )


@pytest.mark.spec("W5", "W16")
@pytest.mark.parametrize("loop", LOOPS)
async def test_a_response_whose_calls_wait_is_answered_in_another_process(loop: type[Loop]) -> None:
    """Of the first process only JSON is left: the response, the results so far, and the ids of the requests."""
    provider = loop([("pay", {"sum": 7}), ("pay", {"sum": 500}), ("pay", {"sum": 600})])
    async with office() as open_desk:
        tools = ToolJson(open_desk.session, loop.format, defers=True)
        response = await provider.ask(tools)
        suspended = await tools.answer(response)
        assert (list(suspended.waiting), paid) == (["call-1-2", "call-1-3"], [7])
        stored = json.dumps([tools.run, response.model_dump(mode="json"), suspended.results, dict(suspended.waiting)])

        run, response_json, results, waiting = json.loads(stored)
        await decide(open_desk, waiting["call-1-2"])
        tools = ToolJson(open_desk.session, loop.format, defers=True, run=run)
        half = await tools.answer(response_json, previous_results=results)
        assert (dict(half.waiting), paid) == ({"call-1-3": waiting["call-1-3"]}, [7, 500])
        await decide(open_desk, waiting["call-1-3"], approved=False)
        done = await tools.answer(response_json, previous_results=half.results)
        assert (dict(done.waiting), paid) == ({}, [7, 500])
        read = [answer.text for answer in _read(loop, done.results)]
        assert [json.loads(text) for text in read[:2]] == [{"paid": 7}, {"paid": 500}]
        assert "the request was rejected" in read[2]
        assert {record.correlation for record in await open_desk.records()} == {run}


@pytest.mark.spec("W16")
@pytest.mark.parametrize("loop", LOOPS)
async def test_results_that_are_none_are_refused_before_a_call_is_made(loop: type[Loop]) -> None:
    async with office() as open_desk:
        with pytest.raises(InvalidArguments, match="previous_results: a result with its"):
            await ToolJson(open_desk.session, loop.format).answer(
                [RequestedCall("a", "pay", {"sum": 1})], previous_results=[{"role": "user"}]
            )
        assert paid == []


async def test_an_error_of_the_loop_s_own_callback_fails_no_call() -> None:
    """Others of the same response have had their effects."""

    def broken(call: RequestedCall, event: Message) -> None:
        raise LookupError(call.id)

    async with office() as open_desk:
        calls = [RequestedCall("a", "count", {"texts": ["one"]}), RequestedCall("b", "pay", {"sum": 1})]
        answered = await ToolJson(open_desk.session, "openai").answer(calls, on_event=broken)
        assert [json.loads(output["output"]) for output in answered.results] == [1, {"paid": 1}]


async def test_calls_that_share_an_id_are_refused_where_they_may_have_to_wait() -> None:
    calls = [RequestedCall("a", "pay", {"sum": 500}), RequestedCall("a", "add", {"a": 1})]
    async with office() as open_desk:
        with pytest.raises(InvalidArguments, match="two calls of this response have the same id"):
            await ToolJson(open_desk.session, "openai", defers=True).answer(calls)
        assert await open_desk.records() == []


async def test_words_beside_results_are_no_results() -> None:
    history = [{"role": "user", "content": [{"type": "text", "text": "go on"}]}]
    async with office() as open_desk:
        answered = await ToolJson(open_desk.session, "anthropic").answer(
            [RequestedCall("a", "add", {"a": 1})], previous_results=history
        )
        assert len(answered.answers) == 1


async def test_no_text_at_all_is_no_arguments() -> None:
    async with office() as open_desk:
        answered = await ToolJson(open_desk.session, "openai").answer([RequestedCall("a", "look", "")])
        assert answered.answers["a"].data == "nothing"


async def test_the_page_runs_as_it_stands(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = [MessagesLoop([("pay", {"sum": 7})], words="The paper is paid.")]
    loops.append(MessagesLoop([("pay", {"sum": 7}), ("pay", {"sum": 500})], words="Both are paid."))
    replies = (loop.reply for loop in loops for _ in range(2))

    def reply(request: httpx2.Request) -> httpx2.Response:
        return next(replies)(request)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(reply))
    monkeypatch.setattr(anthropic, "AsyncAnthropic", partial(anthropic.AsyncAnthropic, api_key="k", http_client=http))
    await run_page("tool-json", {}, capsys, tmp_path, monkeypatch)


TYPES: dict[ToolFormat, tuple[Any, Any]] = {
    "openai": (FunctionToolParam, FunctionCallOutput),
    "openai-chat": (ChatCompletionFunctionToolParam, ChatCompletionToolMessageParam),
    "anthropic": (ToolParam, MessageParam),
}
"""The SDKs' own types of definitions and results."""


def _read(loop: type[Loop], results: list[dict[str, Any]]) -> list[Read]:
    provider = loop()
    provider.history = results
    return [Read(text, failed) for text, failed in provider.results()]
