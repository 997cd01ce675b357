"""MCP over HTTP without stored transport sessions: each session id proves its owner."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import sys
from collections.abc import AsyncGenerator, Set
from contextlib import asynccontextmanager
from contextvars import ContextVar, Token
from functools import partial
from hashlib import sha256
from typing import Any, Final, cast

from anyio import CancelScope, create_task_group, move_on_after
from mcp.server.streamable_http import LAST_EVENT_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic_core import from_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from capset.kernel.call.client_questions import has_forms
from capset.kernel.call.session import Session
from capset_server.auth.signing_keys import FixedKey, KeySource
from capset_server.http.bodies import replaying
from capset_server.mcp.changes import Listeners
from capset_server.mcp.exchanges import BY_OTHERS, Again, ApprovalAccess, Exchange, Reserve
from capset_server.mcp.fast_calls import FastCalls, OrdinaryList, may_be_ordinary, read_request
from capset_server.mcp.kept_streams import VERSION as RESUMED_VERSION
from capset_server.mcp.kept_streams import AnswerOwner, KeptStream, KeptStreams, NotKept
from capset_server.mcp.protocol import make_server
from capset_server.mcp.request_state import seal_states
from capset_server.mcp.tasks import Tasks


class SessionTokens:
    """Issuer and verifier of ``Mcp-Session-Id``: a random number, and a keyed hash of it and of its owner.

    The first key signs, and all of them verify. The number also says whether the client shows forms, since what it
    declares in ``initialize`` is not stored.
    """

    __slots__ = ("_keys",)

    def __init__(self, *keys: bytes) -> None:
        self._keys = keys

    def issue(self, identity: str, *, has_forms: bool = False) -> str:
        """Return a new id, valid for this identity only."""
        number = secrets.token_hex(16) + _FORMS * has_forms
        return f"{number}.{_seal(self._keys[0], number, identity)}"

    def is_of(self, ticket: str, identity: str) -> bool:
        """Return whether an id was issued to this identity."""
        number, _, seal = ticket.partition(".")
        return any(hmac.compare_digest(seal.encode(), _seal(key, number, identity).encode()) for key in self._keys)


def _seal(key: bytes, number: str, identity: str) -> str:
    return hmac.digest(key, f"{number} {identity}".encode(errors="surrogatepass"), sha256).hex()


DRAIN_SECONDS: Final = 5.0
"""How long closing waits for running requests before it cancels their calls."""
_SESSION: Final = "mcp-session-id"
_FORMS: Final = "-forms"
_ASKING: Final = frozenset({"2025-06-18", RESUMED_VERSION})
"""The revisions in which a call asks its client by a request on the call's own stream."""
_VERSION: Final = "mcp-protocol-version"
_OLDER: Final = HANDSHAKE_PROTOCOL_VERSIONS


class McpDoor:
    """MCP for a host that authenticates callers: ``async with door.run(): …`` around ``await door.handle(…)``.

    Nothing is stored between requests, as in the protocol since 2026-07-28. In older revisions, ``initialize`` gives
    the client an id that proves its owner and ties a cancellation to its request. Processes that share a ``key`` of at
    least 32 secret bytes accept each other's ids; a cancellation reaches only the process that runs the call. ``keys``
    provides several keys, of which the first signs, such as ``StoredKeys``, which servers of one store share. Without
    either, ids are valid until the process ends.
    """

    __slots__ = ("_empty", "_exchange", "_exchanges", "_fast", "_keys", "_listeners", "_manager", "_server", "_streams")

    def __init__(self, *, key: bytes | None = None, keys: KeySource | None = None) -> None:
        if key is not None and keys is not None:
            raise ValueError("key and keys exclude each other: give only one of them")
        if key is not None and len(key) < 32:
            raise ValueError(f"a key has at least 32 bytes; got {len(key)}")
        self._keys = keys or FixedKey(secrets.token_bytes(32) if key is None else key)
        self._exchange: ContextVar[Exchange] = ContextVar("capset_mcp_exchange")
        self._exchanges: set[Exchange] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        tasks = Tasks(self._keys)
        self._listeners = Listeners()
        self._streams = KeptStreams()
        self._server = make_server(self._exchange.get, self._keys, tasks, self._listeners)
        self._fast = FastCalls(self._server.server_info_stamp, seal_states(self._exchange.get, self._keys), tasks)
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Accept requests while inside. On exit, refuse new ones, wait for running ones, then cancel their calls."""
        # The host has checked Host, Origin and the body's size.
        manager = StreamableHTTPSessionManager(self._server, stateless=True, max_request_body_size=sys.maxsize)
        async with manager.run():
            self._manager = manager
            self._listeners.closed.clear()
            try:
                yield
            finally:
                self._manager = None
                await self._drain()

    def look_again(self) -> None:
        """Check at once what another process has changed, and notify subscribed clients."""
        self._listeners.ring_all()

    async def handle(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        session: Session,
        identity: str,
        *,
        correlation: str | None = None,
        notes: dict[str, str] | None = None,
        tools: Set[str] | None = None,
        reserve: Reserve | None = None,
        approvals: ApprovalAccess = BY_OTHERS,
        again: Again | None = None,
    ) -> None:
        """Answer one HTTP request from ``session``, and return once none of its work is running.

        ``identity`` identifies the caller and the target: the principal, the key and the path. An ``Mcp-Session-Id`` of
        another identity is answered with 404. A client that disconnects cancels its call. ``correlation`` is passed to
        the calls; the tool and the record of a call are put into ``notes``. ``tools`` are the only ones that may be
        listed and called, as ``CAPABILITY.TOOL``; ``None`` for all in play. ``reserve`` is awaited with the size of a
        large response before it is built. ``approvals`` says how calls that wait for an approval are decided. ``again``
        returns the current session, for clients that subscribe to changes.
        """
        owned = partial(Exchange, tools=tools, identity=identity, reserve=reserve, approvals=approvals, again=again)
        if self._manager is not None and scope["method"] == "POST" and may_be_ordinary(scope["headers"]):
            exchange = owned(session, None, correlation, notes)
            return await self._serve_fast(self._manager, exchange, scope, receive, send)
        scope = _trimmed(scope)
        headers = Headers(scope=scope)
        connection = headers.get(_SESSION)
        exchange = owned(session, connection, correlation, notes)
        is_older = headers.get(_VERSION, _OLDER[0]) in _OLDER
        if self._manager is None:
            response = _error(503, INTERNAL_ERROR, "The server is closing")
        elif scope["method"] != "POST":
            return await self.resume(scope, receive, send, identity, tools=tools)
        elif not is_older:
            return await self._serve(self._manager, exchange, scope, receive, send)
        elif exchange.connection is not None and not await self._knows(exchange.connection, identity):
            response = _error(404, INVALID_REQUEST, "Session not found")
        else:
            return await self._serve_older(self._manager, exchange, scope, receive, send, identity)
        await response(scope, receive, send)
        return None

    async def resume(
        self, scope: Scope, receive: Receive, send: Send, identity: str, *, tools: Set[str] | None = None
    ) -> None:
        """Answer a request other than a POST: a GET with ``Last-Event-ID`` resumes a response of revision 2025-11-25.

        The parameters are those of ``handle``; no session is needed.
        """
        headers = Headers(scope=_trimmed(scope))
        connection, event = headers.get(_SESSION), headers.get(LAST_EVENT_ID_HEADER)
        if scope["method"] != "GET" or event is None or headers.get(_VERSION) != RESUMED_VERSION:
            # There is no session to end, and no events exist outside a request's own response.
            response = Response(status_code=405, headers={"Allow": "POST"})
        elif self._manager is None:
            response = _error(503, INTERNAL_ERROR, "The server is closing")
        elif connection is not None and not await self._knows(connection, identity):
            response = _error(404, INVALID_REQUEST, "Session not found")
        else:
            try:
                stream, after = self._streams.find(event, AnswerOwner(identity, connection), tools)
            except NotKept as error:
                response = _error(error.status, INVALID_REQUEST, error.why)
            else:
                return await stream.deliver(after, receive, send)
        return await response(scope, receive, send)

    async def _serve_fast(
        self, manager: StreamableHTTPSessionManager, exchange: Exchange, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve a request whose headers announce a call or list of tools: without the SDK, if it is ordinary."""
        body = await _read_body(receive)
        if body is None:
            return None
        request = read_request(scope["headers"], body, exchange)
        if request is None or self._manager is None:  # the door may have been closed while the body arrived
            return await self._serve(manager, exchange, _trimmed(scope), replaying(body, receive), send)
        if isinstance(request, OrdinaryList):
            return await self._fast.list(request, exchange, send)
        token = self._enter(exchange)
        try:
            await self._fast.answer(request, exchange, receive, send)
        finally:
            self._listeners.ring(exchange.session.id)
            self._leave(exchange, token)

    async def _serve_older(
        self,
        manager: StreamableHTTPSessionManager,
        exchange: Exchange,
        scope: Scope,
        receive: Receive,
        send: Send,
        identity: str,
    ) -> None:
        """Serve a request of an older revision: with ``initialize``, and with cancellations as separate requests."""
        body = await _read_body(receive)
        if body is None:
            return None
        match _parsed(body):
            case {"method": "initialize", "params": {"capabilities": dict()}} as asked:
                tokens, declared = SessionTokens(*await self._keys.get()), asked["params"]["capabilities"]
                send = _giving(send, tokens.issue(identity, has_forms=has_forms(declared)))
            case {"method": "notifications/cancelled", "params": {"requestId": int() | str() as request}}:
                self._cancel(exchange.connection, request)
                return await Response(status_code=202)(scope, receive, send)
            case {"method": "tools/call", "id": int() | str(), "params": {"name": str() as tool}}:
                stream = self._kept(exchange, scope, tool, identity)
                if stream is not None:
                    return await self._serve_kept(manager, exchange, scope, body, receive, send, stream)
            case {"id": str() as asked, "result": dict()} | {"id": str() as asked, "error": dict()} as answer:
                try:
                    owner = AnswerOwner(identity, exchange.connection)
                    is_taken = self._streams.answer(asked, owner, cast("dict[str, Any]", answer).get("result"))
                except NotKept as error:
                    return await _error(error.status, INVALID_REQUEST, error.why)(scope, receive, send)
                if is_taken:
                    return await Response(status_code=202)(scope, receive, send)
            case _:
                pass
        return await self._serve(manager, exchange, scope, replaying(body, receive), send)

    def _kept(self, exchange: Exchange, scope: Scope, tool: str, identity: str) -> KeptStream | None:
        """Return the stream that keeps the response to a call, if the client can resume it or be asked on it.

        Returns ``None`` otherwise, and if there is no room.
        """
        version, connection = Headers(scope=scope).get(_VERSION), exchange.connection
        asks = version in _ASKING and connection is not None and connection.partition(".")[0].endswith(_FORMS)
        is_resumable = version == RESUMED_VERSION
        if not (asks or is_resumable):
            return None
        caller = exchange.session.snapshot.principal
        owner, principal = AnswerOwner(identity, connection), (caller.org, caller.kind, caller.id)
        installed = exchange.session.snapshot.tools.get(tool)
        own_name = None if installed is None else installed.own_name
        stream = self._streams.open(owner, principal, own_name, exchange.cancel, is_resumable=is_resumable)
        exchange.asking = stream if asks else None
        return stream

    async def _serve_kept(
        self,
        manager: StreamableHTTPSessionManager,
        exchange: Exchange,
        scope: Scope,
        body: bytes,
        receive: Receive,
        send: Send,
        stream: KeptStream,
    ) -> None:
        """Serve a call that continues for a while without its client, and return once it has ended."""
        async with create_task_group() as tasks:
            tasks.start_soon(stream.deliver, 0, receive, send)
            try:
                await self._serve(manager, exchange, scope, replaying(body, _silence), stream.take)
            finally:
                self._streams.end(stream)

    async def _serve(
        self, manager: StreamableHTTPSessionManager, exchange: Exchange, scope: Scope, receive: Receive, send: Send
    ) -> None:
        token = self._enter(exchange)
        try:
            await manager.handle_request(scope, receive, send)
        finally:
            # The SDK serves older revisions in a task of its own, which may outlive its client for a moment.
            exchange.cancel()
            with CancelScope(shield=True):
                await exchange.over()
            self._leave(exchange, token)

    def _enter(self, exchange: Exchange) -> Token[Exchange]:
        """Register an exchange, so that closing waits for it."""
        self._exchanges.add(exchange)
        self._empty.clear()
        return self._exchange.set(exchange)

    def _leave(self, exchange: Exchange, token: Token[Exchange]) -> None:
        self._exchange.reset(token)
        self._exchanges.discard(exchange)
        if not self._exchanges:
            self._empty.set()

    async def _knows(self, ticket: str, identity: str) -> bool:
        """Return whether an id was issued to this identity, by any server that shares the keys."""
        return SessionTokens(*await self._keys.get()).is_of(ticket, identity) or SessionTokens(
            *await self._keys.get(afresh=True)
        ).is_of(ticket, identity)

    def _cancel(self, connection: str | None, request: int | str) -> None:
        for exchange in list(self._exchanges):
            if connection is not None and exchange.connection == connection:
                exchange.cancel(request)

    def end_streams(self) -> None:
        """End the streams of changes, and calls that continue without a client: the server is shutting down."""
        self._listeners.close()
        self._streams.close()

    async def _drain(self) -> None:
        self.end_streams()
        with move_on_after(DRAIN_SECONDS):
            await self._empty.wait()
        for exchange in list(self._exchanges):
            exchange.cancel()
        for exchange in list(self._exchanges):
            await exchange.over()


async def _read_body(receive: Receive) -> bytes | None:
    """Return the body of a request, ``None`` if the client disconnected before it was complete."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def _silence() -> Message:
    """Wait forever: the call must not notice that its client disconnects."""
    await asyncio.Event().wait()
    raise AssertionError


def _trimmed(scope: Scope) -> Scope:
    """Return the request with header values stripped of whitespace; not every server does so (RFC 9110, 5.5)."""
    return {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}


def _parsed(body: bytes) -> Any:  # any JSON from the client
    try:
        return from_json(body)
    except ValueError:
        return None  # the SDK reports the error


def _error(status: int, code: int, message: str) -> Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return JSONResponse(error, status_code=status)


def _giving(send: Send, ticket: str) -> Send:
    """Return a ``send`` that adds the transport session's id to a successful response."""

    async def giving(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            headers = MutableHeaders(raw=list(message["headers"]))
            headers[_SESSION] = ticket
            message = {**message, "headers": headers.raw}
        await send(message)

    return giving
