"""MCP on the server: the paths ``/mcp/agents/{id}`` and ``/mcp/sessions/{id}`` (spec 5, P16)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from capset.kernel.session import Session
from capset.server.answers import answer_problem
from capset.server.caller import Caller
from capset.server.service import Service
from capset.server.visit import Refused, caller_of, visit_of

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
    for path, entrance in (
        ("/mcp/agents/{id}", _Entrance(door, service.agent_session, service.agent)),
        ("/mcp/sessions/{id}", _Entrance(door, service.session, service.session)),
    ):
        app.router.routes.append(Route(path, entrance))
    async with door.run():
        yield


class _Entrance:
    """Finds the caller's session, and hands over. ``look`` only says whether there is what is addressed."""

    def __init__(self, door: McpDoor, find: Find, look: Callable[[Caller, str], Awaitable[object]]) -> None:
        self._door = door
        self._find = find
        self._look = look

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit, caller = visit_of(scope), caller_of(scope)
        caller.check("capset:call")
        asked: str = scope["path_params"]["id"]
        if scope["method"] != "POST":
            await self._look(caller, asked)  # nothing but a message makes a session
            refused = Refused(405, "method_not_allowed", "MCP takes POST here")
            return await answer_problem(send, refused, visit.correlation, (b"allow", b"POST"))
        session = await self._find(caller, asked)
        identity = f"{caller.identity}\0{scope['path']}"
        return await self._door.handle(
            scope, receive, send, session, identity, correlation=visit.correlation, notes=visit.notes
        )
