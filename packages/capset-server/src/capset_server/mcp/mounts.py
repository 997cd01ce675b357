"""MCP on the server: ``/mcp``, ``/mcp/agents/{id}`` and ``/mcp/sessions/{id}`` (spec 5, P16)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Set
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic_core import from_json
from starlette.types import Receive, Scope, Send

from capset.errors import NotFound
from capset.kernel.call.session import Session
from capset_server.approvals.decisions import connection_page_of, decide_approval, may_approve_own, page_of, refusal_for
from capset_server.auth.callers import Caller, check_tool
from capset_server.auth.signing_keys import StoredKeys
from capset_server.http.bodies import replaying
from capset_server.http.paths import MCP_PATHS
from capset_server.http.request_context import RequestContext, body_of, caller_of, path_of, request_context
from capset_server.http.request_rules import LARGE, HttpRefusal
from capset_server.http.responses import answer_problem
from capset_server.http.routes import Endpoint
from capset_server.service import Service

if TYPE_CHECKING:
    from capset_server.mcp import McpDoor
    from capset_server.mcp.exchanges import ApprovalAccess

LISTEN: Final = b"subscriptions/listen"
Find = Callable[[Caller, str], Awaitable[Session]]


@asynccontextmanager
async def mcp_endpoints(service: Service) -> AsyncGenerator[Mapping[tuple[None, str], Endpoint]]:
    """Yield the MCP endpoints while they are served; without the extra ``mcp`` there are none."""
    try:
        from capset_server.mcp import McpDoor
        from capset_server.mcp.exchanges import ApprovalAccess
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        yield {}
        return
    door = McpDoor(keys=StoredKeys(service.kernel))
    page, connect_url = page_of(service), connection_page_of(service)

    def access(caller: Caller) -> ApprovalAccess:
        decide = partial(decide_approval, service, caller) if may_approve_own(service, caller) else None
        return ApprovalAccess(page, decide, partial(refusal_for, service, caller), connect_url)

    of_agent = _Entrance(
        door, service, "agents", service.agent_session, service.agent, access, service.agent_by_default
    )
    of_session = _Entrance(door, service, "sessions", service.session, service.session, access)
    for kind in ("lists", "key"):
        service.turns.bell.on(kind, lambda _: door.look_again())
    async with door.run():
        ending = asyncio.create_task(_end_streams(door, service))
        try:
            yield {(None, path): of_session if "/sessions/" in path else of_agent for path in MCP_PATHS}
        finally:
            ending.cancel()


async def _end_streams(door: McpDoor, service: Service) -> None:
    """End streams that would not end by themselves when the server begins to shut down."""
    await service.turns.bell.closed.wait()
    door.end_streams()


class _Entrance:
    """Endpoint that finds the caller's session and passes the request on. ``look`` only checks that the target exists.

    A path without an id means the caller's default agent, or else that of the server, ``agent``.
    """

    def __init__(
        self,
        door: McpDoor,
        service: Service,
        noun: str,
        find: Find,
        look: Callable[[Caller, str], Awaitable[object]],
        access: Callable[[Caller], ApprovalAccess],
        agent: str | None = None,
    ) -> None:
        self._door = door
        self._agent = agent
        self._service = service
        self._noun = noun
        self._find = find
        self._look = look
        self._access = access

    async def __call__(self, id: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        request_info, caller = request_context(scope), caller_of(scope)
        caller.check_calls()
        target_id = (caller.agent or self._agent) if id is None else id
        if target_id is None:
            raise NotFound(
                "this key has no default agent",
                hint="create one that has: capset key create NAME --principal WHO --agent ID; or use /mcp/agents/ID",
            )
        identity = "\0".join((caller.identity, self._noun, target_id))  # the same for both paths to an agent
        if scope["method"] != "POST":
            await self._look(caller, target_id)  # only a message creates a session
            if scope["method"] == "GET" and b"last-event-id" in request_info.headers:
                return await self._door.resume(scope, receive, send, identity, tools=caller.tools)
            refused = HttpRefusal(405, "method_not_allowed", "MCP takes POST here")
            return await answer_problem(send, refused, request_info.correlation, (b"allow", b"POST"))
        is_listening, called = _listens(request_info), None
        if body_of(scope).is_large:
            await self._look(caller, target_id)  # before the body is read
        if is_listening or caller.tools is not None:
            content: bytes = (await receive())["body"]
            if is_listening and len(content) > LARGE:  # its memory would be held as long as the stream is open
                raise HttpRefusal(413, "body_too_large", f"A request to listen has at most {LARGE} bytes")
            called = None if caller.tools is None else called_tool(content)
            receive = replaying(content, receive)
        session = await self._find(caller, target_id)
        if called is not None:
            await check_tool(caller, session, called)

        async def renew() -> tuple[Session, Set[str] | None]:
            now = await self._service.callers.identify(request_info.header(b"authorization"), path_of(scope))
            now.check_calls()
            await self._service.session_row(now, session.id)  # a deleted session is not created again
            return await self._find(now, target_id), now.tools

        with self._joined(caller) if is_listening else _NOTHING:
            return await self._door.handle(
                scope,
                receive,
                send,
                session,
                identity,
                correlation=request_info.correlation,
                notes=request_info.notes,
                tools=caller.tools,
                reserve=request_info.guard.grow,
                approvals=self._access(caller),
                again=renew,
            )

    @contextmanager
    def _joined(self, caller: Caller) -> Generator[None]:
        """Count a request that listens for changes among its principal's streams of events.

        Raises ``HttpRefusal`` (429) if there are too many. A request whose header does not match its method is refused
        later.
        """
        leave = self._service.turns.followers.join(caller.principal, instead="ask for the lists again")
        try:
            yield
        finally:
            leave()


_NOTHING: Final = nullcontext()


def _listens(request_info: RequestContext) -> bool:
    return request_info.headers.get(b"mcp-method", b"").strip(b" \t") == LISTEN


def called_tool(message: bytes) -> str | None:
    """Return the name of the tool that a message of MCP calls, ``None`` if it calls none."""
    try:
        parsed: object = from_json(message)
    except ValueError:
        return None  # the SDK reports the error
    match parsed:
        case {"method": "tools/call", "params": {"name": str() as name}}:
            return name
        case _:
            return None
