"""Servers of older protocols: those that end at a newer first message, and HTTP with SSE (spec 7, M102)."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from capset.errors import CapsetError, TransientError
from capset_connect.mcp import McpServer
from capset_connect.mcp.connection import McpConnection
from tests.helpers.connect.mcp.opening import NONE, opened
from tests.helpers.connect.mcp.urls import declared, serving
from tests.waiting import until

pytestmark = pytest.mark.spec("M102")

ABRUPT = """
import json, pathlib, sys

starts = pathlib.Path(sys.argv[1])
is_first = True
for line in sys.stdin:
    message = json.loads(line)
    if is_first:
        with starts.open("a") as file:
            file.write(message["method"] + " ")
        if message["method"] != "initialize":
            sys.exit("the first message must be initialize")
        is_first = False
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
            answer["result"] = {"protocolVersion": "2025-06-18", **about}
        case "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("say", "end")]
            answer["result"] = {"tools": tools}
        case "tools/call":
            if message["params"]["name"] == "end":
                sys.exit(1)
            answer["result"] = {"content": [{"type": "text", "text": "said"}]}
        case _:
            answer["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.realtime
async def test_a_process_that_ends_at_a_newer_first_message_is_started_again_and_that_is_remembered(
    tmp_path: Path,
) -> None:
    script, starts = tmp_path / "abrupt.py", tmp_path / "starts"
    script.write_text(ABRUPT)
    server = McpServer(name="abrupt", command=[sys.executable, str(script), str(starts)], trust_first_use=True)
    async with McpConnection(server, NONE) as connection:
        assert {offer.name for offer in await connection.offers()} == {"say", "end"}
        assert (await connection.call("say", {}, None)).content == [{"type": "text", "text": "said"}]
        assert starts.read_text().split() == ["server/discover", "initialize"]
        with pytest.raises(TransientError, match="the outcome of the call is unknown"):
            await connection.call("end", {}, None)
        await connection.offers()
        assert starts.read_text().split() == ["server/discover", "initialize", "initialize"]


@dataclass
class OlderServer:
    """A server of 2024-11-05: answers come on a stream of events, and messages go to the place that it names."""

    place: str = "/messages"
    messages: list[str] = field(default_factory=list[str])
    """The methods of the messages, and ``POST`` for each to the URL of the stream."""
    streams: list[asyncio.Queue[str | None]] = field(default_factory=list["asyncio.Queue[str | None]"])
    result: str | None = None
    """What stands in the place of the result of a call, if that cannot be read."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope, receive)
            await (await self._answer(request))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.url.path == "/mcp":
            if request.method == "POST":
                self.messages.append("POST")
                return Response("Method Not Allowed", 405)
            self.streams.append(asyncio.Queue())
            return StreamingResponse(self._events(len(self.streams)), media_type="text/event-stream")
        message = await request.json()
        self.messages.append(message["method"])
        if "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": self._result(message["method"])}
            text = json.dumps(answer)
            if self.result is not None and message["method"] == "tools/call":
                text = text[: text.index('"result"')] + f'"result": {self.result}'
            self.streams[int(request.query_params["session"]) - 1].put_nowait(text)
        return Response("Accepted", 202)

    async def _events(self, number: int) -> AsyncGenerator[str]:
        yield f"event: endpoint\ndata: {self.place}?session={number}\n\n"
        while (data := await self.streams[number - 1].get()) is not None:
            yield f"event: message\ndata: {data}\n\n"

    def end(self) -> None:
        """Close all streams."""
        for stream in self.streams:
            stream.put_nowait(None)

    def _result(self, method: str) -> dict[str, Any]:
        match method:
            case "initialize":
                about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "older", "version": "1"}}
                return {"protocolVersion": "2024-11-05", **about}
            case "tools/list":
                return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
            case _:
                return {"content": [{"type": "text", "text": "done"}]}


async def test_http_with_sse_is_spoken_with_a_server_that_refuses_streamable_http() -> None:
    app = OlderServer()
    async with serving(app) as upstream:
        server = declared(upstream, headers={"Authorization": "Bearer ${BOOKS}"})
        async with opened(server, secrets={"BOOKS": "s3cret"}) as site:
            assert await site.call("books_echo") == "done"
            assert await asyncio.gather(*(site.call("books_echo") for _ in range(3))) == ["done"] * 3
        app.end()
    assert app.messages.count("tools/call") == 4
    assert {headers.get("authorization") for headers in upstream.headers} == {"Bearer s3cret"}


@pytest.mark.spec("M99")
@pytest.mark.parametrize("result", ["null}", '{"content": [', '{"content": [{"type": "text", "text": "\\ud800"}]}}'])
async def test_an_answer_that_cannot_be_read_fails_its_call_at_once(result: str) -> None:
    app = OlderServer(result=result)
    async with serving(app) as upstream, opened(declared(upstream)) as site:
        with pytest.raises(CapsetError) as caught:
            await site.call("books_echo")
        assert caught.value.code == "bad_answer"
        app.result = None
        assert await site.call("books_echo") == "done"
        app.end()


async def test_a_stream_that_ends_is_opened_again_before_the_next_call() -> None:
    app = OlderServer()
    async with serving(app) as upstream, McpConnection(declared(upstream), NONE) as connection:
        await connection.offers()
        app.end()
        await until(lambda: not connection.is_connected, "the connection to be over with its stream")
        await connection.offers()
        assert (await connection.call("echo", {}, None)).content == [{"type": "text", "text": "done"}]
        assert (len(app.streams), app.messages.count("POST")) == (2, 2), "it is remembered what the server speaks"
        app.end()


async def test_a_server_that_speaks_neither_is_told_by_its_first_refusal() -> None:
    async def closed(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(status_code=405)(scope, receive, send)

    async with serving(closed) as upstream, McpConnection(declared(upstream), NONE) as connection:
        with pytest.raises(TransientError, match="it answered 405 Method Not Allowed"):
            await connection.offers()


@pytest.mark.spec("T92")
@pytest.mark.realtime
async def test_messages_go_to_no_place_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capset_connect.mcp.connector._SSE_SECONDS", 1.0)
    elsewhere = OlderServer()
    async with serving(elsewhere) as other:
        app = OlderServer(f"http://{other.host}/messages")
        async with (
            serving(app) as upstream,
            McpConnection(declared(upstream, internal=[upstream.host, other.host]), NONE) as connection,
        ):
            with pytest.raises(TransientError):
                await connection.offers()
            app.end()
    assert elsewhere.messages == []
