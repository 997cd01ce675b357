"""The middleware around every request: limits, Host and Origin, authentication, access log, error handling."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capset.errors import Cancelled, CapsetError, DefinitionError, InternalError, PermissionDenied
from capset.kernel.call.fair_slots import FairSlots, Owner, owner_of
from capset.net.addresses import is_loopback
from capset_server.auth.callers import Caller
from capset_server.http.bodies import (
    LARGE,
    MEMORY_UNIT,
    PART,
    ClientLeft,
    RequestBody,
    Reservation,
    Transfers,
    declared_size,
    send_in_parts,
    size_of,
)
from capset_server.http.challenges import lead_to_issuer
from capset_server.http.fair_shares import (
    FILE_SECONDS,
    JSON_SECONDS,
    LARGE_SECONDS,
    WRITE_SECONDS,
    FairShares,
    Share,
    Turns,
)
from capset_server.http.openai_errors import with_openai_errors
from capset_server.http.request_context import (
    ARRIVED,
    CLIENT_LEFT,
    KEY,
    MAX_ID,
    HttpRefusal,
    RequestContext,
    correlation_of,
    note_refusal,
    path_of,
)
from capset_server.http.responses import answer_problem
from capset_server.http.root_paths import place_request
from capset_server.http.routes import APPROVAL_PAGE, CALLS_PATH, OPENAI_PATHS, PROTOCOL_PATHS, SLACK_INTERACTIONS
from capset_server.observability.log_writer import line_head
from capset_server.observability.logs import AccessLog
from capset_server.observability.requests import Telemetry
from capset_server.service import Service

PUBLIC: Final = frozenset({"/v1/healthz", "/v1/readyz"})
"""The paths of REST that need no key; neither does what is well known, for those who seek one."""
FILE: Final = "/v1/sessions/{id}/files/{path}"
_UPLOADS: Final = frozenset({FILE, "/sessions/{id}/files/{path}"})
LARGE_BODIES: Final = frozenset({CALLS_PATH, "/v1/sessions/{id}/messages", *PROTOCOL_PATHS})
"""The paths that take larger bodies than others: a tool may allow large arguments, and a message contain media."""
FORMS: Final = {APPROVAL_PAGE: 16 * 1024, SLACK_INTERACTIONS: 256 * 1024}
"""The paths with an authentication of their own, and the maximum size of the forms that are sent there."""
TURN_BODY: Final = 16 * 1024
"""Requests with larger bodies, in bytes, take turns."""
_HOST: Final = re.compile(r"\*|[a-z0-9._-]+|\[[0-9a-f:.]+\]", re.IGNORECASE | re.ASCII)
_ORIGIN: Final = re.compile(r"null|[a-z][a-z0-9+.-]*://[^/?#@*\s]+/?", re.IGNORECASE | re.ASCII)
_SAFE: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_WELL_KNOWN: Final = "/.well-known/"
_UNKNOWN: Final = "\0unknown"
"""Stands for the organisation of all callers without a credential; none has such a name."""
_log = logging.getLogger("capset.server")


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The host names of this server (``*``: any), and the origins that browsers may call it from."""

    written: str
    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, bound: str, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> AllowedHosts:
        """Return the names of a server bound to ``bound``: that one and those given, or those of loopback.

        Raises ``DefinitionError`` for a host or an origin that no request could name.
        """
        hosts, origins = [*hosts], [*origins]
        if wrong := [one for one in hosts if not _HOST.fullmatch(one)]:
            raise DefinitionError(
                f"a host is a name or an address without scheme, port and path, or * for any; got {wrong[0]!r:.200}",
                hint="such as capset.example.com or [::1]; it stands for all ports",
            )
        if wrong := [one for one in origins if not _ORIGIN.fullmatch(one)]:
            raise DefinitionError(
                f"an origin is a scheme and a host, with a port that is not the usual one; got {wrong[0]!r:.200}",
                hint="such as https://console.example.com or http://localhost:3000",
            )
        loopback = ("localhost", "127.0.0.1", "[::1]") if is_loopback(bound) else ()
        written = f"[{bound}]" if ":" in bound else bound
        named = (host.lower() for host in (written, *loopback, *hosts))
        return cls(written, frozenset(named), frozenset(origin.lower().rstrip("/") for origin in origins))

    def check(self, host: str, origin: str) -> None:
        """Raise ``HttpRefusal`` for a host that is not this server's, ``PermissionDenied`` for a foreign origin."""
        name, _, port = host.lower().rpartition(":")
        bare = name if name and port.isdigit() else host.lower()
        if "*" not in self.hosts and bare not in self.hosts:
            raise HttpRefusal(
                421, "wrong_host", "This server does not answer to that Host: start it with --allow-host NAME"
            )
        if origin and origin.lower() not in self.origins and origin.lower().partition("://")[2] != host.lower():
            raise PermissionDenied("Permission denied: this Origin is not allowed; --allow-origin ORIGIN allows it")


class Pages(Protocol):
    """The pages for people: they have a sign-in of their own in the place of a key."""

    paths: frozenset[str]
    """The templates of their paths."""

    async def identify(self, scope: Scope, request_info: RequestContext) -> Caller | None:
        """Return who has signed in, ``None`` for others."""
        ...

    async def fail(self, scope: Scope, receive: Receive, send: Send, error: CapsetError) -> None:
        """Answer with a page that says what went wrong."""
        ...


class ServerMiddleware:
    """The outermost ASGI application."""

    def __init__(
        self, app: ASGIApp, service: Service, names: AllowedHosts, access: AccessLog, telemetry: Telemetry, pages: Pages
    ) -> None:
        self._app = app
        self._pages = pages
        self._telemetry = telemetry
        self._service = service
        self._names = names
        self._limits = limits = service.limits
        self._shares = FairShares(limits)
        self._turns = Turns(limits.share_seconds)
        self._memory = FairSlots(limits.memory // MEMORY_UNIT)
        self._transfers = Transfers(limits.share_seconds)
        self._under_way = FairSlots(limits.connections * 9 // 10)
        self._access = access
        self._addressed: tuple[bytes | None, bytes | None] | None = None
        """The last accepted Host and Origin: most requests repeat them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1003})
        started = time.perf_counter()
        headers = dict(scope["headers"])
        request_info = RequestContext(
            correlation_of(headers.get(b"x-correlation-id")) or self._service.kernel.new_id(), headers
        )
        scope[KEY] = request_info
        scope = place_request(scope, self._service.root_path)
        told = self._telemetry.begin(scope, request_info)
        if scope["method"] == "HEAD":
            send = head_alone(send)
        if request_info.route in OPENAI_PATHS:
            send = with_openai_errors(send)
        stamp = (b"x-correlation-id", request_info.correlation.encode())
        is_page = request_info.route in self._pages.paths

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                request_info.status = message["status"]
                kept = any(name == b"cache-control" for name, _ in message["headers"]) if is_page else False
                message["headers"] = [*message["headers"], stamp, *(_SAFE[:1] if kept else _SAFE)]
                if message["status"] in (401, 403) and (resource := self._service.callers.resource) is not None:
                    lead_to_issuer(message, resource, path_of(scope), request_info.header(b"authorization"))
            if len(message.get("body", b"")) > PART:
                await send_in_parts(send, message, self._limits.send_seconds)
            else:
                await send(message)

        try:
            await self._enter(scope, receive, sent, request_info)
        except ClientLeft:
            pass
        except CapsetError as error:
            await self._fail(scope, receive, sent, request_info, error)
        except asyncio.CancelledError:
            cut_off = Cancelled("The server is closing, and the request was cut off: it may have had its effects")
            cut_off.retryable = scope["method"] in ("GET", "HEAD")
            await self._fail(scope, receive, sent, request_info, cut_off)
            raise
        except Exception as error:
            _log.exception("a request failed, correlation %s", request_info.correlation)
            failure = InternalError("Something went wrong; the log has the details.")
            failure.__cause__ = error
            await self._fail(scope, receive, sent, request_info, failure)
        finally:
            try:
                self._log_request(scope, request_info, started)
            finally:
                self._telemetry.end(scope, request_info, started, told)
        return None

    async def _enter(self, scope: Scope, receive: Receive, send: Send, request_info: RequestContext) -> None:
        path, authorization = path_of(scope), request_info.header(b"authorization")
        is_public, callers = path in PUBLIC, self._service.callers
        is_open = is_public or is_well_known(path, request_info.route) or request_info.route in FORMS
        if request_info.route in self._pages.paths:
            request_info.caller = await self._pages.identify(scope, request_info)
            is_open = request_info.caller is None
        has_been_met = request_info.caller is not None or (callers.has_met(authorization) and not is_open)
        if request_info.caller is not None:
            pass  # who has signed in
        elif has_been_met:
            request_info.caller = await callers.identify(authorization, path)
        else:
            address = str((scope.get("client") or ("",))[0])
            counted = self._counted(Owner(_UNKNOWN, address)) if is_open and not is_public else nullcontext()
            with counted:
                await self._shares.admit(self._shares.enter_unknown(address, asks_health=is_public))
                self._check_head(scope, request_info, path)
                if is_open:  # for those who have no credential yet, and need none
                    return await self._answer(scope, receive, send, request_info)
                request_info.caller = await callers.identify(authorization, path)
        share = self._shares.enter(request_info.caller.principal)
        with (
            self._counted(owner_of(request_info.caller.principal)),
            Reservation(self._memory, request_info.caller.principal, self._limits.share_seconds) as request_info.memory,
        ):
            await self._shares.admit(share)
            if has_been_met:
                self._check_head(scope, request_info, path)
            request_info.transfer = partial(self._transfers.take, request_info.caller.principal)
            await self._answer(scope, receive, send, request_info, share)
        return None

    @contextmanager
    def _counted(self, owner: Owner) -> Generator[None]:
        """Count a request as under way. Raises ``HttpRefusal`` if others need what is left."""
        if not self._under_way.take(owner):
            refusal = HttpRefusal(
                429,
                "too_many_requests",
                "Too many requests of this caller or its organisation are under way: wait for some to end",
                retryable=True,
            )
            refusal.retry_after = 1.0
            raise refusal
        try:
            yield
        finally:
            self._under_way.release(owner)

    def _check_head(self, scope: Scope, request_info: RequestContext, path: str) -> None:
        """Raise ``HttpRefusal`` for a head that is too large or names no host of this server, or an odd path."""
        limits = self._limits
        size = size_of(scope["headers"]) + len(scope["raw_path"]) + len(scope["query_string"])
        if size > limits.head:
            raise HttpRefusal(
                431, "headers_too_large", f"A request's line and headers have at most {limits.head} bytes"
            )
        if len(path) > MAX_ID and request_info.route is not None:
            refuse_long_ids(path, request_info.route)
        addressed = request_info.headers.get(b"host"), request_info.headers.get(b"origin")
        if addressed != self._addressed:
            self._names.check(request_info.header(b"host"), request_info.header(b"origin"))
            self._addressed = addressed
        if not is_utf8(scope["raw_path"]):
            raise HttpRefusal(400, "invalid_path", "A path is UTF-8, percent-encoded")

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, request_info: RequestContext, share: Share | None = None
    ) -> None:
        """Answer; with a body that is not small, when its turn has come. A large one is read when it is asked for."""
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # whose body is left out (RFC 9110 §9.3.2)

        async def take_turn(size: int) -> None:
            """Wait for the turn of a body that has been read, if it needs one, and keep it for a time by its size."""
            if request_info.caller is None or share is None:
                return
            if scope["method"] != "GET":
                rate = FILE_SECONDS if is_file(scope["method"], request_info.route) else JSON_SECONDS
                share.charge(WRITE_SECONDS + rate * size / 2**20, time.perf_counter())
            if size > TURN_BODY:
                # What is done with a smaller body takes less time, and after that a call may wait for its tool.
                most = LARGE_SECONDS * min(1.0, size / LARGE)
                admit = partial(self._shares.admit, share)
                await turn.enter_async_context(self._turns.take(request_info.caller.principal, most=most, admit=admit))

        async with AsyncExitStack() as turn:
            body = request_info.body = self._body(scope, receive, request_info, take_turn)
            if not body.is_large:
                await take_turn(len(await body.content()))
            await self._app(scope, body.receive, send)

    def _body(
        self, scope: Scope, receive: Receive, request_info: RequestContext, take_turn: Callable[[int], Awaitable[None]]
    ) -> RequestBody:
        """Return the body of a request, within the bounds of its path. Raises ``HttpRefusal`` if it declares more."""
        limits, values = self._limits, self._limits.json_values
        is_page = request_info.route in self._pages.paths
        if request_info.route in FORMS:
            size, values = FORMS[request_info.route], None
        elif is_page and request_info.caller is None:
            size, values = FORMS[APPROVAL_PAGE], None
        elif request_info.caller is None:
            size = 0
        elif is_file(scope["method"], request_info.route):
            size, values = limits.file, None
        elif is_page:
            size, values = limits.large_body, None
        else:
            size = limits.large_body if request_info.route in LARGE_BODIES else limits.body
        return RequestBody(
            receive,
            declared_size(request_info.headers),
            size,
            limits.body_seconds,
            values,
            arrived=scope.get(ARRIVED, False),
            transfer=request_info.transfer,
            memory=request_info.memory,
            take_turn=take_turn,
        )

    async def _fail(
        self, scope: Scope, receive: Receive, send: Send, request_info: RequestContext, error: CapsetError
    ) -> None:
        if request_info.status:
            return None
        note_refusal(request_info, error)
        if request_info.route in self._pages.paths:
            return await self._pages.fail(scope, receive, send, error)
        return await answer_problem(send, error, request_info.correlation)

    def _log_request(self, scope: Scope, request_info: RequestContext, started: float) -> None:
        caller = request_info.caller
        self._access.put(
            {
                **line_head("request", level="info", logger="capset.requests", time=self._service.kernel.now()),
                "method": scope["method"],
                "path": scope["path"],
                "status": request_info.status or CLIENT_LEFT,
                "ms": round((time.perf_counter() - started) * 1000, 2),
                "correlation": request_info.correlation,
                "principal": caller.principal.id if caller else None,
                "org": caller.principal.org if caller else None,
                "key": caller.key if caller else None,
                **request_info.notes,
            }
        )


def refuse_long_ids(path: str, route: str) -> None:
    """Raise ``HttpRefusal`` for an id in a path that no store needs to be asked for; the path of a file is none."""
    for name, segment in zip(route.split("/"), path.split("/"), strict=False):
        if len(segment) > MAX_ID and name.startswith("{") and name != "{path}":
            raise HttpRefusal(414, "id_too_long", f"An id has at most {MAX_ID} characters; this one has {len(segment)}")


def head_alone(send: Send) -> Send:
    """Return a ``send`` that ends an answer after its head: that of a stream would otherwise never end."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return sent


def is_well_known(path: str, route: str | None) -> bool:
    """Return whether a path is one where clients look for metadata, which they may not have a key for yet (RFC 8615).

    What is not there is 404: to a 401, clients would answer by looking for metadata.
    """
    return path.startswith(_WELL_KNOWN) or (route is None and _WELL_KNOWN in path)


def is_file(method: str, route: str | None) -> bool:
    """Return whether a request uploads the content of a file."""
    return method == "PUT" and route in _UPLOADS


def is_utf8(raw_path: bytes) -> bool:
    """Return whether a percent-encoded path is UTF-8; two that are not could decode to the same name."""
    if b"%" not in raw_path:
        return raw_path.isascii()
    try:
        unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError:
        return False
    return True
