"""Servers at URLs whose calls are made without the SDK, or by it: its client keeps cookies, and those are its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from mcp.server.mcpserver import Context, MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capset.errors import CapsetError
from tests.adapters.mcp.test_servers import Site, opened
from tests.adapters.mcp.test_urls import declared, serving

VERSION = "2026-07-28"
FIRST_DIRECT = 1_000_000_000
BOTH = pytest.mark.parametrize("is_direct", [True, False], ids=["direct", "sdk"])


@dataclass
class Wire:
    """The requests that called tools, as they came: their headers and their bodies."""

    calls: list[tuple[list[tuple[bytes, bytes]], dict[str, Any]]] = field(
        default_factory=list[tuple[list[tuple[bytes, bytes]], dict[str, Any]]]
    )
    clients: set[Any] = field(default_factory=set[Any])

    @property
    def direct(self) -> list[bool]:
        """Whether each call came without the SDK."""
        return [body["id"] >= FIRST_DIRECT for _, body in self.calls]


def watched(app: ASGIApp, wire: Wire, *, is_direct: bool) -> ASGIApp:
    """Return an app whose calls are noted, and that sets a cookie if the SDK is to make them."""

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        body = await Request(scope, receive).body()
        if scope["method"] == "POST" and (said := json.loads(body)).get("method") == "tools/call":
            wire.calls.append((list(scope["headers"]), said))
            wire.clients.add(scope["client"])
        has_come = False

        async def again() -> Message:
            nonlocal has_come
            if has_come:
                return await receive()
            has_come = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not is_direct:
                message = {**message, "headers": [*message["headers"], (b"set-cookie", b"a=b")]}
            await send(message)

        await app(scope, again, sending)
        return None

    return noting


@asynccontextmanager
async def site_of(app: ASGIApp, *, is_direct: bool, **options: Any) -> AsyncGenerator[tuple[Site, Wire]]:
    wire = Wire()
    async with (
        serving(watched(app, wire, is_direct=is_direct)) as there,
        opened(declared(there, **options)) as site,
    ):
        yield site, wire
    assert set(wire.direct) <= {is_direct}


def library(done: list[str]) -> ASGIApp:
    """Return a server of the official SDK, which notes what was done there."""
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
        try:
            await asyncio.sleep(seconds)
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
                found: Any = {"supportedVersions": [VERSION], "capabilities": {"tools": {}}}
            case "tools/list":
                found = {"tools": [tool]}
            case "subscriptions/listen":
                error = {"code": -32601, "message": "there is no such method"}
                response = JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error})
                return await response(scope, receive, send)
            case _:
                return await (await answering(request, message))(scope, receive, send)
        said = {**found, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        await JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": said})(scope, receive, send)
        return None

    return app


async def outcome(site: Site, **arguments: Any) -> Any:
    """Return what a call gives, or its error."""
    try:
        return await site.call("books_add", **arguments)
    except CapsetError as error:
        return type(error), error.code, error.status, error.message


async def both(answering: Answering, tool: Mapping[str, Any] = ADD, **options: Any) -> list[Any]:
    """Return what a call gives in both ways, and a second one after it."""
    found: list[Any] = []
    for is_direct in (True, False):
        async with site_of(scripted(answering, tool), is_direct=is_direct, **options) as (site, wire):
            first = await outcome(site, a=1)
            assert wire.direct[0] == is_direct
            found.append((first, await outcome(site, a=2)))
    return found


def plain(**result: Any) -> Answering:
    """Answer with a result."""

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        said = {"resultType": "complete", "content": [{"type": "text", "text": "done"}], **result}
        return JSONResponse(
            {"jsonrpc": "2.0", "id": message["id"], "result": {k: v for k, v in said.items() if v != "-"}}
        )

    return answering


def fixed(response: Callable[[], Response]) -> Answering:
    """Answer always the same."""

    async def answering(request: Request, message: dict[str, Any]) -> Response:
        return response()

    return answering


def failing(status: int = 200, code: int = -32602, **error: Any) -> Answering:
    async def answering(request: Request, message: dict[str, Any]) -> Response:
        said = {"code": code, "message": "there is no such book", **error}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": said}, status)

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
                await asyncio.sleep(0.01)

        return StreamingResponse(stream(), media_type="text/event-stream", headers=headers)

    return answering
