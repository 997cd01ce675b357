"""MCP over HTTP without stored transport sessions: each id proves its owner by itself."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import sys
from collections.abc import AsyncGenerator, Set
from contextlib import asynccontextmanager
from contextvars import ContextVar, Token
from hashlib import sha256
from typing import Any, Final

from anyio import CancelScope, move_on_after
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic_core import from_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from capset.kernel.call.session import Session
from capset.server.auth.signing_keys import FixedKey, KeySource
from capset.server.http.bodies import replaying
from capset.server.mcp.exchanges import BY_OTHERS, ApprovalAccess, Exchange, Reserve
from capset.server.mcp.fast_calls import FastCalls, OrdinaryList, may_be_ordinary, read_request
from capset.server.mcp.protocol import make_server
from capset.server.mcp.request_state import seal_states
from capset.server.mcp.tasks import Tasks


class SessionTokens:
    """Issuer and verifier of ``Mcp-Session-Id``: a random number, and a keyed hash of it and of its owner.

    The first key signs, and all of them verify.
    """

    __slots__ = ("_keys",)

    def __init__(self, *keys: bytes) -> None:
        self._keys = keys

    def issue(self, identity: str) -> str:
        """Return a new id, valid for this identity only."""
        number = secrets.token_hex(16)
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
_VERSION: Final = "mcp-protocol-version"
_OLDER: Final = HANDSHAKE_PROTOCOL_VERSIONS


class McpDoor:
    """MCP for a host that authenticates: ``async with door.run(): …`` around ``await door.handle(…)``.

    Nothing is stored between requests. Since 2026-07-28 the protocol works that way; in its older revisions
    ``initialize`` gives the client an id that proves its owner and ties a cancellation to its request. Processes that
    share a ``key`` of at least 32 secret bytes accept each other's ids; a cancellation reaches only the process that
    runs the call. ``keys`` are several, of which the first signs; such as ``StoredKeys``, which servers of one store
    share. Without either, ids end with the process.
    """

    __slots__ = ("_empty", "_exchange", "_exchanges", "_fast", "_keys", "_manager", "_server")

    def __init__(self, *, key: bytes | None = None, keys: KeySource | None = None) -> None:
        if key is not None and keys is not None:
            raise ValueError("key and keys are two ways to say the same: give one of them")
        if key is not None and len(key) < 32:
            raise ValueError(f"a key has at least 32 bytes; got {len(key)}")
        self._keys = keys or FixedKey(secrets.token_bytes(32) if key is None else key)
        self._exchange: ContextVar[Exchange] = ContextVar("capset_mcp_exchange")
        self._exchanges: set[Exchange] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        tasks = Tasks(self._keys)
        self._server = make_server(self._exchange.get, self._keys, tasks)
        self._fast = FastCalls(self._server.server_info_stamp, seal_states(self._exchange.get, self._keys), tasks)
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None]:
        """Accept requests while inside. Leaving refuses new ones, drains those that run, then cancels their calls."""
        # The host has checked Host, Origin and the body's size.
        manager = StreamableHTTPSessionManager(self._server, stateless=True, max_request_body_size=sys.maxsize)
        async with manager.run():
            self._manager = manager
            try:
                yield
            finally:
                self._manager = None
                await self._drain()

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
    ) -> None:
        """Answer one HTTP request from ``session``, and return once none of its work is running.

        ``identity`` stands for the caller and the target: the principal, the key and the path. An ``Mcp-Session-Id`` of
        another identity answers 404. A client that disconnects cancels its call. ``correlation`` is passed to the
        calls; the tool and the record of a call are put into ``notes``. ``tools`` are the names of the only ones that
        may be listed and called, ``None`` for all in play. ``reserve`` is awaited with the bytes of a large answer
        before it is made. ``approvals`` says where calls that wait for an approval are decided.
        """

        def exchange_of(connection: str | None) -> Exchange:
            return Exchange(
                session,
                connection,
                correlation,
                notes,
                tools=tools,
                identity=identity,
                reserve=reserve,
                approvals=approvals,
            )

        if self._manager is not None and scope["method"] == "POST" and may_be_ordinary(scope["headers"]):
            return await self._serve_fast(self._manager, exchange_of(None), scope, receive, send)
        scope = _trimmed(scope)
        headers = Headers(scope=scope)
        exchange = exchange_of(headers.get(_SESSION))
        is_older = headers.get(_VERSION, _OLDER[0]) in _OLDER
        if self._manager is None:
            response = _error(503, INTERNAL_ERROR, "The server is closing")
        elif scope["method"] != "POST":
            # There is no session to end, and no events exist outside a request's own answer.
            response = Response(status_code=405, headers={"Allow": "POST"})
        elif not is_older:
            return await self._serve(self._manager, exchange, scope, receive, send)
        elif exchange.connection is not None and not await self._knows(exchange.connection, identity):
            response = _error(404, INVALID_REQUEST, "Session not found")
        else:
            return await self._serve_older(self._manager, exchange, scope, receive, send, identity)
        await response(scope, receive, send)
        return None

    async def _serve_fast(
        self, manager: StreamableHTTPSessionManager, exchange: Exchange, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve a request that calls a tool or lists the tools, as it says: without the SDK, if it is ordinary."""
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            return None
        asked = read_request(scope["headers"], body, exchange)
        if asked is None or self._manager is None:  # it may have been closed while the body came
            return await self._serve(manager, exchange, _trimmed(scope), replaying(body, receive), send)
        if isinstance(asked, OrdinaryList):
            return await self._fast.list(asked, exchange, send)
        here = self._enter(exchange)
        try:
            await self._fast.answer(asked, exchange, receive, send)
        finally:
            self._leave(exchange, here)

    async def _serve_older(
        self,
        manager: StreamableHTTPSessionManager,
        exchange: Exchange,
        scope: Scope,
        receive: Receive,
        send: Send,
        identity: str,
    ) -> None:
        """Serve a request of an older revision: with ``initialize``, and with cancellations sent as requests."""
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            return
        match _parsed(body):
            case {"method": "initialize"}:
                send = _giving(send, SessionTokens(*await self._keys.get()).issue(identity))
            case {"method": "notifications/cancelled", "params": {"requestId": int() | str() as request}}:
                self._cancel(exchange.connection, request)
                await Response(status_code=202)(scope, receive, send)
                return
            case _:
                pass
        await self._serve(manager, exchange, scope, replaying(body, receive), send)

    async def _serve(
        self, manager: StreamableHTTPSessionManager, exchange: Exchange, scope: Scope, receive: Receive, send: Send
    ) -> None:
        here = self._enter(exchange)
        try:
            await manager.handle_request(scope, receive, send)
        finally:
            # The SDK serves older revisions in a task of its own, which may outlive its client for a moment.
            exchange.cancel()
            with CancelScope(shield=True):
                await exchange.over()
            self._leave(exchange, here)

    def _enter(self, exchange: Exchange) -> Token[Exchange]:
        """Have an exchange among those that closing waits for."""
        self._exchanges.add(exchange)
        self._empty.clear()
        return self._exchange.set(exchange)

    def _leave(self, exchange: Exchange, here: Token[Exchange]) -> None:
        self._exchange.reset(here)
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

    async def _drain(self) -> None:
        with move_on_after(DRAIN_SECONDS):
            await self._empty.wait()
        for exchange in list(self._exchanges):
            exchange.cancel()
        for exchange in list(self._exchanges):
            await exchange.over()


def _trimmed(scope: Scope) -> Scope:
    """Return the request with header values stripped of whitespace; not every server does so (RFC 9110, 5.5)."""
    return {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}


def _parsed(body: bytes) -> Any:  # any JSON from the client
    try:
        return from_json(body)
    except ValueError:
        return None  # the SDK reports it, in the protocol's words


def _error(status: int, code: int, message: str) -> Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return JSONResponse(error, status_code=status)


def _giving(send: Send, ticket: str) -> Send:
    """Return a ``send`` that adds the transport session's id to a successful answer."""

    async def giving(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            MutableHeaders(scope=message)[_SESSION] = ticket
        await send(message)

    return giving
