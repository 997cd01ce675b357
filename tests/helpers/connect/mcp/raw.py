"""A server that answers MCP's messages as a test says, and those messages, in both revisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

ECHO: dict[str, Any] = {"name": "echo", "description": "Say it.", "inputSchema": {"type": "object"}}
OLDER, NEWEST = "2025-11-25", "2026-07-28"
Message = Mapping[str, Any]


def done(message: Message) -> Response:
    """Answer a call."""
    return result(message, {"content": [{"type": "text", "text": "done"}]})


def result(message: Message, members: Mapping[str, Any]) -> Response:
    """Answer a request, as the newest revision has it; older ones do not look at what it has beside theirs."""
    shared = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": {**shared, **members}})


def error(message: Message, code: int, text: str, status: int = 200) -> Response:
    """Refuse a request."""
    return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}, status)


def not_allowed(_: Request) -> Response:
    """Answer a GET as a server without streams of its own."""
    return Response(status_code=405)


def raw(
    called: Callable[[Message], Response] = done,
    fetched: Callable[[Request], Response] = not_allowed,
    tools: Sequence[Message] = (ECHO,),
    revision: str = OLDER,
) -> ASGIApp:
    """Speak one revision, with tools and answers of one's own."""

    def answer(message: Message) -> Response:
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}
        match message.get("method"):
            case "server/discover" if revision == NEWEST:
                return result(message, {"supportedVersions": [revision], **about})
            case "initialize" if revision == OLDER:
                return result(message, {"protocolVersion": revision, **about})
            case "tools/list":
                return result(message, {"tools": tools})
            case "tools/call":
                return called(message)
            case _ if "id" in message:
                return error(message, -32601, "there is no such method")
            case _:
                return Response(status_code=202)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = answer(await request.json()) if request.method == "POST" else fetched(request)
        await response(scope, receive, send)

    return app
