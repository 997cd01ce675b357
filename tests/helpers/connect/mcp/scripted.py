"""Servers at URLs, whose answers to calls are scripted."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capset.errors import CapsetError
from tests.helpers.connect.mcp.opening import Site, opened
from tests.helpers.connect.mcp.urls import declared, serving
from tests.waiting import moment

VERSION = "2026-07-28"


@dataclass
class Wire:
    """The requests that called tools, as they came: their headers and their bodies."""

    calls: list[tuple[list[tuple[bytes, bytes]], dict[str, Any]]] = field(
        default_factory=list[tuple[list[tuple[bytes, bytes]], dict[str, Any]]]
    )
    clients: set[Any] = field(default_factory=set[Any])


def watched(app: ASGIApp, wire: Wire) -> ASGIApp:
    """Return an app whose calls are noted."""

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        body = await Request(scope, receive).body()
        if scope["method"] == "POST" and (call_message := json.loads(body)).get("method") == "tools/call":
            wire.calls.append((list(scope["headers"]), call_message))
            wire.clients.add(scope["client"])
        has_come = False

        async def replay() -> Message:
            nonlocal has_come
            if has_come:
                return await receive()
            has_come = True
            return {"type": "http.request", "body": body, "more_body": False}

        await app(scope, replay, send)
        return None

    return noting


@asynccontextmanager
async def site_of(app: ASGIApp, **options: Any) -> AsyncGenerator[tuple[Site, Wire]]:
    wire = Wire()
    async with serving(watched(app, wire)) as remote, opened(declared(remote, **options)) as site:
        yield site, wire


def library(done: list[str], waits: list[float] | None = None) -> ASGIApp:
    """Return a server of the official SDK, which notes what was done there, and the seconds of each wait that began."""
    server = MCPServer("books")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        done.append(f"{a}+{b}")
        return a + b

    @server.tool(structured_output=False)
    async def count(ctx: Context, to: int) -> str:
        """Count, and say how far it is."""
        for number in range(to):
            await ctx.report_progress(number, to, f"at {number}")
        return f"counted to {to}"

    @server.tool(structured_output=False)
    async def wait(seconds: float) -> str:
        """Wait."""
        if waits is not None:
            waits.append(seconds)
        try:
            await moment(seconds)
        except asyncio.CancelledError:
            done.append("cancelled")
            raise
        return "waited"

    return server.streamable_http_app()


ADD = {
    "name": "add",
    "description": "Add.",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}, "text": {"type": ["string", "null"]}}},
}
STRUCTURED = {**ADD, "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
Answering = Callable[[Request, dict[str, Any]], Awaitable[Response]]


def scripted(answering: Answering, tool: Mapping[str, Any] = ADD) -> ASGIApp:
    """Return a server of one tool, whose calls are answered in one's own way."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        message = json.loads(body) if body else {}
        match message.get("method"):
            case "server/discover":
                payload: Any = {"supportedVersions": [VERSION], "capabilities": {"tools": {}}}
            case "tools/list":
                payload = {"tools": [tool]}
            case "subscriptions/listen":
                error = {"code": -32601, "message": "there is no such method"}
                response = JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error})
                return await response(scope, receive, send)
            case _:
                return await (await answering(request, message))(scope, receive, send)
        result_body = {**payload, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        await JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result_body})(scope, receive, send)
        return None

    return app


async def outcome(site: Site, **arguments: Any) -> Any:
    """Return what a call gives, or its error."""
    try:
        return await site.call("books_add", **arguments)
    except CapsetError as error:
        return type(error), error.code, error.status, error.message


def plain(**result: Any) -> Answering:
    """Answer with a result."""

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        fields = {"resultType": "complete", "content": [{"type": "text", "text": "done"}], **result}
        return JSONResponse(
            {"jsonrpc": "2.0", "id": message["id"], "result": {k: v for k, v in fields.items() if v != "-"}}
        )

    return answering


def fixed(response: Callable[[], Response]) -> Answering:
    """Answer always the same."""

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        return response()

    return answering


def failing(status: int = 200, code: int = -32602, **error: Any) -> Answering:
    async def answering(request: Request, message: dict[str, Any]) -> Response:
        problem = {"code": code, "message": "there is no such book", **error}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": problem}, status)

    return answering


def events(*parts: str, result: Any = "done", **headers: str) -> Answering:
    """Answer with a stream of events; ``{id}`` and ``{token}`` stand for those of the request."""

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        async def stream() -> AsyncGenerator[str]:
            token = message["params"]["_meta"].get("progressToken")
            content = {"resultType": "complete", "content": [{"type": "text", "text": result}]}
            last = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": content})
            for part in parts:
                yield part.replace("{last}", f"event: message\ndata: {last}\n\n").replace("{token}", json.dumps(token))
                await moment(0.01)

        return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)

    return answering


IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
NOTE = 'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n'
PROGRESS = 'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{token},"progress":'
UNREADABLE = "sent an unreadable response; the outcome of the call is unknown"
HTML = fixed(lambda: Response("<html>", media_type="text/html"))
CASES: dict[str, tuple[Answering, Any]] = {
    "text": (plain(), "done"),
    "several texts": (plain(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "a\nb"),
    "no content": (plain(content=[]), ""),
    "structure that nobody declared": (plain(structuredContent={"n": 1}), "done"),
    "an image": (plain(content=[IMAGE, {"type": "text", "text": "a", "annotations": None}]), "image/png"),
    "a failure": (plain(isError=True), "done"),
    "a failure without a word": (plain(isError=True, content=[]), "without a reason"),
    "members that it may have": (plain(_meta={"io.modelcontextprotocol/serverInfo": 1}, other=1), "done"),
    "a structure that is no object": (plain(structuredContent=[1]), "done"),
    "a structure that is null": (plain(structuredContent=None), "done"),
    "metadata that is null": (plain(_meta=None), "done"),
    "a failure that is null": (plain(isError=None), "done"),
    "content that is null": (plain(content=None), '"content": null'),
    "no type of result": (plain(resultType="-"), "done"),
    "another type of result": (plain(resultType="task"), "done"),
    "content that is none": (plain(content=[{"type": "text"}]), '{"type": "text"}'),
    "a failure of another type": (plain(isError="perhaps"), "done"),
    "an error": (failing(), "refused: there is no such book"),
    "an error with a status": (failing(400), "refused: there is no such book"),
    "an error without an id": (
        fixed(lambda: JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "no"}}, 400)),
        "refused: no",
    ),
    "404": (fixed(lambda: Response("nothing", 404)), "refused: Not Found"),
    "500": (fixed(lambda: JSONResponse({"detail": "oh"}, 500)), "refused: it answered 500 Internal Server Error"),
    "202": (fixed(lambda: Response(status_code=202)), "202 Accepted"),
    "204": (fixed(lambda: Response(status_code=204)), "Unexpected content type"),
    "a page": (HTML, "Unexpected content type: text/html"),
    "no JSON": (fixed(lambda: Response("{", media_type="application/json")), UNREADABLE),
    "deep JSON": (fixed(lambda: Response("[" * 5_000, media_type="application/json")), UNREADABLE),
    "an array": (fixed(lambda: Response("[]", media_type="application/json")), UNREADABLE),
    "elsewhere": (
        fixed(lambda: RedirectResponse("http://user:pass@10.0.0.1/mcp?a=b", 302)),
        "refused: Redirect to http://10.0.0.1/mcp not followed",
    ),
    "elsewhere, the same way": (
        fixed(lambda: RedirectResponse("http://10.0.0.1/", 307)),
        "Redirect to http://10.0.0.1/",
    ),
    "a redirect without a place": (
        fixed(lambda: Response("x", 302, media_type="text/plain")),
        "Unexpected content type",
    ),
    "nowhere": (fixed(lambda: Response(status_code=302, headers={"location": "http://[bad"})), None),
    "compressed": (
        fixed(
            lambda: Response(gzip.compress(b"{}"), headers={"content-encoding": "gzip"}, media_type="application/json")
        ),
        "The MCP server refused: it sent a compressed response, which was not requested",
    ),
    "too long": (plain(content=[{"type": "text", "text": "x" * 2_000_000}]), "a message of more than 1,048,576 bytes"),
    "a stream": (events("{last}"), "done"),
    "a stream of many things": (
        events("retry: 5\n: comment\n\n", NOTE, "event: other\ndata: x\n\n", "id: 1\ndata:\n\n{last}"),
        "done",
    ),
    "a stream that names a codec": (
        events("{last}", result="\u00e9", **{"content-type": "text/event-stream; charset=punycode"}),
        "\u00e9",
    ),
    "a stream of numbers that no clock takes": (
        events(f"retry: {'9' * 400}\nid:\ndata:\n\n", PROGRESS + "9" * 400 + "}}\n\n", "{last}"),
        "done",
    ),
    "a stream whose error is of headers": (
        events('data: {"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"again"}}\n\n'),
        "refused: again",
    ),
    "a stream with more after it": (events("{last}" + NOTE * 10), "done"),
    "a stream of what is no message": (events("data: {}\n\n", "{last}"), UNREADABLE),
    "a stream that ends": (
        events(NOTE),
        "cannot be reached: the connection broke off; the outcome of the call is unknown",
    ),
    "a stream with a long event": (events("data: " + "x" * 1_200_000 + "\n\n{last}"), "the connection broke off"),
    "a stream that floods": (
        events(*("data:\n" * 200_000 for _ in range(100))),
        "more than 32 messages of 1,048,576 bytes at once",
    ),
}
"""Answers, and what is in the outcome of a call that gets one, if that is known."""
