"""Server-sent events, however they are cut and written."""

from __future__ import annotations

import json

import pytest

from capset.errors import ForeignAnswer, Unreachable
from capset.wire.calls import MessageShape
from capset_server.client import Client
from capset_server.client import events as module
from tests.helpers.client.strangers import events, stranger

RESULT = {"success": True, "data": "done", "record": "r", "session": "s", "runtime_hash": "h", "prompt_hash": "h"}
END = f"event: result\ndata: {json.dumps(RESULT)}\n\n"


async def read(*parts: bytes) -> list[MessageShape]:
    """Return the events of a stream that came in these parts, after which its result must be there."""
    async with stranger(*parts) as server, Client(server.url) as client, client.stream("s", "t") as stream:
        messages = [message async for message in stream]
        assert (stream.result.data, [message async for message in stream]) == ("done", [])
        return messages


def event(text: str, **more: object) -> str:
    return json.dumps({"kind": "event", "type": "told", "data": text, **more}, ensure_ascii=False)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_every_end_of_line_and_every_cut_is_the_same_to_readers(end: str, size: int) -> None:
    payload = "日本 \u2028 é"
    text = f"data: {event(payload)}\n\n: beat\n\n{END}".replace("\n", end).encode()
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    assert [message.data for message in await read(events(b""), *parts)] == [payload]


async def test_a_connection_that_breaks_after_the_result() -> None:
    chunk = END.encode()
    chunked = events(b"%x\r\n%b\r\n" % (len(chunk), chunk), "Transfer-Encoding: chunked")  # and no last chunk
    assert await read(chunked) == []


async def test_fields_that_are_not_needed_and_events_that_nobody_knows() -> None:
    lines = [
        ": hello", "id: 1", "retry: 10", "retry: soon", "nonsense", "data", "",
        "event: future", "data: {}", "",
        "event: message", f"data:{event('a', new=1)}", "id", "",
        "data: {", 'data: "kind": "event",', 'data: "type": "told", "data": "b"}', "",
    ]  # fmt: skip
    assert [message.data for message in await read(events(("\n".join(lines) + "\n" + END).encode()))] == ["a", "b"]


async def test_data_that_is_no_message() -> None:
    for data in ("nonsense", "[]", '{"kind": "wish", "type": "x"}'):
        with pytest.raises(ForeignAnswer, match="did not answer with a MessageShape"):
            await read(events(f"data: {data}\n\n{END}".encode()))
    with pytest.raises(ForeignAnswer, match="did not answer with a CallShape"):
        await read(events(b"event: result\ndata: {}\n\n"))


@pytest.mark.parametrize("stream_text", ["data: " + "x" * 2_000, ("data: " + "x" * 100 + "\n") * 20])
async def test_an_event_without_end_is_given_up(stream_text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 1_000)
    with pytest.raises(ForeignAnswer, match="1000 byte limit"):
        await read(events(stream_text.encode()))


async def test_a_stream_that_falls_silent_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset_server.client.connection.SILENCE", 0.05)
    async with stranger(events(b": hello\n\n"), stays=True) as server, Client(server.url) as client:
        with pytest.raises(Unreachable, match="broke: ReadTimeout"):
            async with client.stream("s", "t") as stream:
                _ = [message async for message in stream]
