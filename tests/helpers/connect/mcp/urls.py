"""MCP servers at addresses: a server of books, served over HTTP, and its declaration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from capset_connect.mcp import McpServer
from capset_server.http.uvicorn_server import bind


@dataclass
class There:
    """A server that listens on this machine, and the headers that it was sent."""

    port: int = 0
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


@asynccontextmanager
async def serving(app: ASGIApp, port: int = 0) -> AsyncGenerator[There]:
    remote, bound = There(), bind("127.0.0.1", port)
    remote.port = bound.getsockname()[1]

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            remote.headers.append(dict(Request(scope).headers))
        await app(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(noting, log_level="warning", timeout_graceful_shutdown=1))
    running = asyncio.create_task(server.serve([bound]))
    try:
        yield remote
    finally:
        server.should_exit = True
        await running


def books() -> ASGIApp:
    server = MCPServer("books")

    @server.tool(structured_output=False)
    def title(number: int) -> str:
        """Say the title of a book."""
        return ["Emma", "Persuasion"][number]

    @server.tool(structured_output=False)
    def text() -> str:
        """Say all of it."""
        return "x" * 3_000_000

    return server.streamable_http_app()


def declared(remote: There, **options: Any) -> McpServer:
    settings: dict[str, Any] = {"internal": [remote.host], "trust_first_use": True, **options}
    return McpServer(name="books", url=remote.url, **settings)


def described(text: str) -> ASGIApp:
    server = MCPServer("books")
    server.add_tool(lambda: "A!", name="shout", description=text, structured_output=False)
    return server.streamable_http_app()
