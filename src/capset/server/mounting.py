"""MCP on the server: the paths ``/mcp/agents/{id}`` and ``/mcp/sessions/{id}`` (spec 5, P16)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from capset.kernel.session import Session
from capset.server.caller import Caller
from capset.server.service import Service
from capset.server.visit import caller_of, visit_of

if TYPE_CHECKING:
    from capset.server.mcp import McpDoor

Find = Callable[[Caller, str], Awaitable[Session]]


@asynccontextmanager
async def mounted_mcp(app: FastAPI, service: Service) -> AsyncGenerator[None]:
    """Serve MCP on ``app`` while inside; without the extra ``mcp`` there are no such paths."""
    try:
        from capset.server.mcp import McpDoor
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        yield
        return
    door = McpDoor()
    for path, find in (("/mcp/agents/{id}", service.agent_session), ("/mcp/sessions/{id}", service.session)):
        app.router.routes.append(Route(path, _Entrance(door, find)))
    async with door.run():
        yield


class _Entrance:
    """Finds the caller's session, and hands over."""

    def __init__(self, door: McpDoor, find: Find) -> None:
        self._door = door
        self._find = find

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit, caller = visit_of(scope), caller_of(scope)
        caller.check("capset:call")
        session = await self._find(caller, scope["path_params"]["id"])
        identity = f"{caller.identity}\0{scope['path']}"
        await self._door.handle(scope, receive, send, session, identity, correlation=visit.correlation)
