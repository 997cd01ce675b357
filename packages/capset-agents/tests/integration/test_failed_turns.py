"""Turns whose model fails: its requests are made again, or the turn is, by the one who began it (spec 6, R3, R20)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from capset.errors import Conflict, NotFound, StoreError
from capset.stores.base.events import TurnRow
from capset.wire.turns import ENDINGS
from capset_agents.playback.scripts import Call, ScriptStep
from tests.helpers.agents.support import Moves, Shelf, site
from tests.waiting import moment, until


@dataclass
class Provider:
    """A provider that fails so often, and how often it was asked."""

    failures: int
    error: Exception
    asked: int = 0
    before: str = ""
    """What is said before it fails."""

    def model(self) -> FunctionModel:
        """Return its model."""

        async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
            self.asked += 1
            if self.asked <= self.failures:
                if self.before:
                    yield self.before
                raise self.error
            yield "Here I am."

        return FunctionModel(stream_function=stream, model_name="moody")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset_agents.turn_model.BACKOFF_SECONDS", 0.01)


def texts(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the texts of a turn's events, and where they are taken back."""
    kinds = {"text.delta": "{text}", "text.discarded": "discarded {step}"}
    return [kinds[kind].format(**data) for kind, data in events if kind in kinds]


DOWN = ModelHTTPError(503, "moody")
REJECTED = ModelHTTPError(401, "moody")


@pytest.mark.spec("R3")
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("error", [DOWN, ModelHTTPError(429, "moody"), ModelAPIError("moody", "no connection")])
async def test_a_request_that_fails_for_a_moment_is_made_again(url: str, shelf: Shelf, error: Exception) -> None:
    provider = Provider(2, error)
    async with site(url, shelf, [], model=provider.model()) as host:
        row = await host.session()
        await host.say(row, "hello")
        assert await host.last(row) == ("turn.ended", {"output": "Here I am."})
        assert provider.asked == 3


@pytest.mark.spec("R3")
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("error", "tries"), [(DOWN, 3), (REJECTED, 1)])
async def test_a_provider_that_fails_ends_the_turn(url: str, shelf: Shelf, error: Exception, tries: int) -> None:
    provider = Provider(9, error)
    async with site(url, shelf, [], model=provider.model()) as host:
        row = await host.session()
        await host.say(row, "hello")
        kind, data = await host.last(row)
        assert (kind, data["error"]["code"], provider.asked) == ("turn.failed", "model_failed", tries)
        await host.say(row, "again")
        kinds = [message["kind"] for message in await host.said(row)]
        assert kinds == ["request", "response", "request"], "each prompt is stored, and the first one is closed"


@pytest.mark.spec("R3")
@pytest.mark.usefixtures("quick")
async def test_an_answer_that_breaks_off_is_taken_back_and_asked_for_again(url: str, shelf: Shelf) -> None:
    provider = Provider(2, DOWN, before="Here ")
    async with site(url, shelf, [], model=provider.model()) as host:
        row = await host.session()
        await host.say(row, "hello")
        assert texts(await host.told(row)) == ["Here ", "discarded 1", "Here ", "discarded 1", "Here I am."]
        assert await host.last(row) == ("turn.ended", {"output": "Here I am."})
        contents = [part["content"] for message in await host.said(row) for part in message["parts"]]
        assert contents == ["hello", "Here I am."], "the conversation has the whole answer alone"


@pytest.mark.spec("R3", "R20")
@pytest.mark.usefixtures("quick")
async def test_what_was_told_last_stays_until_the_turn_is_taken_up_again(url: str, shelf: Shelf) -> None:
    provider = Provider(3, DOWN, before="Here ")
    async with site(url, shelf, [], model=provider.model()) as host:
        row = await host.session()
        turn = await host.say(row, "hello")
        kind, data = await host.last(row)
        assert (kind, data["error"]["retryable"], provider.asked) == ("turn.failed", True, 3)
        before = texts(await host.told(row))
        assert before == ["Here ", "discarded 1", "Here ", "discarded 1", "Here "]
        await host.resume(row, turn)
        assert texts(await host.told(row)) == [*before, "discarded 1", "Here I am."]
        assert await host.last(row) == ("turn.ended", {"output": "Here I am."})


@pytest.mark.realtime
@pytest.mark.spec("R3", "R9")
async def test_an_answer_that_its_process_did_not_get_to_the_end_is_taken_back(
    url: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capset.kernel.kernel.DRAIN_SECONDS", 0.1)
    began = asyncio.Event()

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "Here "
        began.set()
        await asyncio.sleep(3_600)

    async with site(url, shelf, [], model=FunctionModel(stream_function=stream, model_name="slow")) as host:
        row = await host.session()
        await host.begin(row, "hello")
        await began.wait()

        async def is_stored() -> bool:
            return bool(texts(await host.told(row)))

        await until(is_stored, "the event of a text, which is stored with others")
    async with site(url, shelf, ["Here I am."], agent=host.agent) as second_host:
        await second_host.go_on()
        assert texts(await second_host.told(row)) == ["Here ", "discarded 1", "Here I am."]
        assert (await second_host.last(row))[0] == "turn.ended"


@pytest.mark.spec("R1")
async def test_texts_and_arguments_with_half_a_character_are_kept_without_it(url: str, shelf: Shelf) -> None:
    """As of providers that cut their texts between the two escapes of an emoji."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        if len(messages) == 1:
            yield {0: DeltaToolCall("look", '{"text": "\ud83d"}', tool_call_id="1")}
            return
        yield "Here \ud83d"
        await moment(0.2)  # so that the first half is an event of its own
        yield "\ude00 \ud83d"

    async with site(url, shelf, [], model=FunctionModel(stream_function=stream, model_name="halves")) as host:
        row = await host.session()
        await host.say(row, "hello")
        assert await host.last(row) == ("turn.ended", {"output": "Here \N{GRINNING FACE} \N{REPLACEMENT CHARACTER}"})
        assert shelf.done == ["look \N{REPLACEMENT CHARACTER}"]
        assert texts(await host.told(row))[0].startswith("Here ")


@pytest.mark.spec("R3")
@pytest.mark.usefixtures("quick")
async def test_a_provider_whose_connection_breaks_is_asked_again(url: str, shelf: Shelf) -> None:
    """One that speaks HTTP: it sends the beginning of an answer, and hangs up."""
    requests = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]))
        requests += 1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for text in ("Here ", "I am.", None) if requests > 1 else ("Here ",):
            delta, ended = ({"content": text}, None) if text else ({}, "stop")
            choice = {"index": 0, "delta": delta, "finish_reason": ended}
            chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
            data = f"data: {json.dumps(chunk)}\n\n".encode()
            writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        if requests > 1:
            writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=address, api_key="none"))
        async with site(url, shelf, [], model=model) as host:
            row = await host.session()
            await host.say(row, "hello")
            assert await host.last(row) == ("turn.ended", {"output": "Here I am."})
            assert "discarded 1" in texts(await host.told(row))
            assert requests == 2


@pytest.mark.spec("R20")
@pytest.mark.usefixtures("quick")
async def test_a_turn_whose_provider_failed_goes_on_when_its_caller_says_so(url: str, shelf: Shelf) -> None:
    """Its calls are not made again; a turn that has failed for good, or is not the newest, stays as it is."""
    moves: Moves = [Call("put", text="a"), ScriptStep(fail="unavailable")]
    async with site(url, shelf, moves) as host:
        row = await host.session()
        turn = await host.say(row, "go")
        kind, data = await host.last(row)
        assert (kind, data["error"]["code"], data["error"]["retryable"]) == ("turn.failed", "model_failed", True)
    async with site(url, shelf, [Call("put", text="a"), "Done.", "More.", "Never."], agent=host.agent) as second_host:
        await second_host.resume(row, turn)
        assert (await second_host.last(row))[1] == {"output": "Done."}
        kinds = [kind for kind, _ in await second_host.told(row)]
        assert kinds.count("turn.retried") == kinds.count("turn.resumed") == 1
        assert shelf.done == ["put a"]
        with pytest.raises(NotFound, match="not in the turn"):
            await second_host.resume(row, turn)
        later = await second_host.say(row, "and?")
        with pytest.raises(NotFound, match="not in the turn"):
            await second_host.resume(row, turn)
        assert (await second_host.last(row))[1] == {"output": "More."}
        assert later != turn
    async with site(url, shelf, [], agent=host.agent) as broken:
        row = await broken.session()
        turn = await broken.say(row, "go")
        with pytest.raises(Conflict, match=r"failed for good \(script_error\)"):
            await broken.resume(row, turn)


@pytest.mark.spec("D45")
@pytest.mark.usefixtures("quick")
async def test_a_turn_whose_store_goes_away_is_left_to_whoever_looks_next(
    url: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site(url, shelf, [Call("put", text="a"), "Done."]) as host:
        row, store = await host.session(), host.kernel.store.events
        append = store.append

        async def append_what_leaves(*values: Any, then: TurnRow | None = None, **options: Any) -> Any:
            if then is None or then.holder:  # until the turn is left to others
                raise StoreError("the server has ended")
            return await append(*values, then=then, **options)

        monkeypatch.setattr(store, "append", append_what_leaves)
        await host.say(row, "go")
        monkeypatch.setattr(store, "append", append)
        assert (await host.last(row))[0] not in ENDINGS, "it has not failed"
        await host.go_on()
        assert await host.last(row) == ("turn.ended", {"output": "Done."})
        assert shelf.done == ["put a"]
