"""The middleware around every request: limits, Host and Origin, authentication, access log, error handling."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import Final, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from capset.errors import Cancelled, CapsetError, InternalError, NotFound
from capset_server.auth.callers import Caller
from capset_server.http.bodies import PART, ClientLeft, RequestBody, declared_size, send_in_parts
from capset_server.http.challenges import lead_to_issuer
from capset_server.http.openai_errors import with_openai_errors
from capset_server.http.paths import OPENAI_PATHS
from capset_server.http.request_context import (
    ARRIVED,
    CLIENT_LEFT,
    KEY,
    RequestContext,
    correlation_of,
    note_refusal,
    path_of,
)
from capset_server.http.request_rules import (
    PUBLIC,
    AllowedHosts,
    HeadRules,
    bounds_of_body,
    is_upload,
    needs_no_caller,
)
from capset_server.http.responses import answer_problem
from capset_server.http.root_path import place_request
from capset_server.observability.log_writer import AccessLog, line_head
from capset_server.observability.requests import Telemetry
from capset_server.service import Service
from capset_server.shield.guard import Shield

_SAFE: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_log = logging.getLogger("capset.server")


class Pages(Protocol):
    """The pages for people, who sign in instead of sending a key."""

    paths: frozenset[str]
    """The templates of their paths."""

    def serves(self, scope: Scope, request_info: RequestContext) -> bool:
        """Return whether a request is for a page, or comes from a browser that looks for one that does not exist."""
        ...

    async def identify(self, scope: Scope, request_info: RequestContext) -> Caller | None:
        """Return the caller who has signed in, ``None`` for anyone else."""
        ...

    async def fail(self, scope: Scope, receive: Receive, send: Send, error: CapsetError) -> None:
        """Respond with an error page."""
        ...


class ServerMiddleware:
    """The outermost ASGI application."""

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        names: AllowedHosts,
        access: AccessLog,
        telemetry: Telemetry,
        pages: Pages,
        shield: Shield,
    ) -> None:
        self._app = app
        self._pages = pages
        self._telemetry = telemetry
        self._service = service
        self._limits = service.limits
        self._shield = shield
        self._head_rules = HeadRules(service.limits, names)
        self._access = access

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
        span = self._telemetry.begin(scope, request_info)
        if scope["method"] == "HEAD":
            send = head_alone(send)
        if request_info.route in OPENAI_PATHS:
            send = with_openai_errors(send)
        stamp = (b"x-correlation-id", request_info.correlation.encode())
        is_page = request_info.route in self._pages.paths

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                request_info.status = message["status"]
                message = _stamped(message, stamp, is_page=is_page)
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
            cut_off = Cancelled("The server is shutting down and cancelled the request: it may have had its effects")
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
                self._telemetry.end(scope, request_info, started, span)
        return None

    async def _enter(self, scope: Scope, receive: Receive, send: Send, request_info: RequestContext) -> None:
        path, authorization = path_of(scope), request_info.header(b"authorization")
        callers = self._service.callers
        is_open = needs_no_caller(path, request_info.route)
        if self._pages.serves(scope, request_info):
            request_info.caller = await self._pages.identify(scope, request_info)
            is_open = request_info.caller is None
        has_been_met = request_info.caller is not None or (callers.has_met(authorization) and not is_open)
        if request_info.caller is not None:
            pass  # signed in
        elif has_been_met:
            request_info.caller = await callers.identify(authorization, path)
        else:
            address = str((scope.get("client") or ("",))[0])
            with self._shield.guard_unknown(address, is_open=is_open, asks_health=path in PUBLIC) as guard:
                await guard.admit()
                self._head_rules.check(scope, request_info.headers, path, request_info.route)
                if is_open:  # no credential is needed
                    return await self._answer(scope, receive, send, request_info)
                request_info.caller = await callers.identify(authorization, path)
        with self._shield.guard(request_info.caller.principal) as request_info.guard:
            await request_info.guard.admit()
            if has_been_met:
                self._head_rules.check(scope, request_info.headers, path, request_info.route)
            await self._answer(scope, receive, send, request_info)
        return None

    async def _answer(self, scope: Scope, receive: Receive, send: Send, request_info: RequestContext) -> None:
        """Pass the request on; one whose body is not small waits for its turn. A large body is read on demand."""
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # only the body is left out (RFC 9110 §9.3.2)
        method, route, guard = scope["method"], request_info.route, request_info.guard
        if route is None and self._pages.serves(scope, request_info):
            raise NotFound("there is no such page")
        take_turn = partial(guard.take_turn, writes=method != "GET", is_file=is_upload(method, route))
        is_page, is_known = route in self._pages.paths, request_info.caller is not None
        body = request_info.body = RequestBody(
            receive,
            declared_size(request_info.headers),
            bounds_of_body(self._limits, method, route, is_page=is_page, is_known=is_known),
            self._limits.body_seconds,
            arrived=scope.get(ARRIVED, False),
            guard=guard,
            take_turn=take_turn,
        )
        if not body.is_large:
            await take_turn(len(await body.content()))
        await self._app(scope, body.receive, send)

    async def _fail(
        self, scope: Scope, receive: Receive, send: Send, request_info: RequestContext, error: CapsetError
    ) -> None:
        if request_info.status:
            return None
        note_refusal(request_info, error)
        if self._pages.serves(scope, request_info):
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


def _stamped(message: Message, stamp: tuple[bytes, bytes], *, is_page: bool) -> Message:
    """Return a copy of the start of a response, which may be used for others, with the headers that all have."""
    headers: list[tuple[bytes, bytes]] = [*message["headers"]]
    sets_caching = is_page and any(name == b"cache-control" for name, _ in headers)
    return {**message, "headers": [*headers, stamp, *(_SAFE[:1] if sets_caching else _SAFE)]}


def head_alone(send: Send) -> Send:
    """Return a ``send`` that ends a response after its head; a stream would otherwise never end."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return sent
