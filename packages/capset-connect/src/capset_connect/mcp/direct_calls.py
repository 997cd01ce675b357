"""Ordinary calls of tools at 2026-07-28 over HTTP, without the SDK's machinery for each request (spec 7, M17).

A call is one POST, and its answer is JSON or a stream of events. What the SDK sends is sent, over the same pool of
connections, and what it makes of an answer is made of it; a call that is unusual in any way is left to it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import httpcore2
import httpx2
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import encode_header_value
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PROTOCOL_VERSION_META_KEY,
    REQUEST_TIMEOUT,
    ErrorData,
    Implementation,
    InputRequiredResult,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from opentelemetry.propagate import inject
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

from capset.errors import ToolError, TransientError
from capset.net.addresses import NotSent
from capset.net.client import REDIRECT_STATUSES
from capset.net.connections import convert_failures
from capset_connect.mcp.answers import (
    METHOD,
    VERSION,
    ToolAnswer,
    answer_of,
    error_in,
    outcome_of,
    read_message,
    read_plain,
)
from capset_connect.mcp.transports import (
    EVENTS,
    OF_ONE_ANSWER,
    BoundedBody,
    CheckedTransport,
    Meter,
    compressed,
    refusal,
)

_NOT_REACHED: Final = frozenset({"address_refused", "proxy_refused", "tls_failed", "unknown_host"})
"""The codes of errors of a host to which nothing was sent."""
_SAME_METHOD: Final = frozenset({307, 308})
"""The redirects that leave a request to be made again where they lead."""
_FIRST_NUMBER: Final = 1_000_000_000
"""The ids of requests begin here; those of the SDK's own, on the same connection, at 1."""
_PAUSE: Final = 1.0
"""Seconds until a stream is read on that its server has closed, if it does not say when."""
_LONGEST: Final = 1_000_000_000
"""The longest of such pauses, in milliseconds: a longer one is no number that a clock takes."""
_LATER: Final = 0.05
"""Seconds until a call is made again whose server asks for that, and the least until a stream is read on."""
_ATTEMPTS: Final = 2
"""How often in a row a stream is read on in vain, as by the SDK."""
_CHANGES: Final = frozenset({"notifications/tools/list_changed", "notifications/prompts/list_changed"})
_ACCEPTED: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class ForTheSdk(Exception):
    """Raised for a call that its server has not begun, and that is the SDK's to make."""


class CallInterrupted(Exception):
    """Raised for a call that broke off, or was not sent at all; the text says why, if that is known."""

    def __init__(self, why: str = "", *, is_sent: bool = True) -> None:
        super().__init__(why)
        self.is_sent = is_sent


class _DirectCall(NamedTuple):
    """A call: the id of its request, the tool and its arguments, and who is told its progress."""

    number: int
    name: str
    arguments: dict[str, Any]  # JSON
    report: ProgressFnT | None


_Result: TypeAlias = ToolAnswer | InputRequiredResult


@dataclass(slots=True)
class _StreamPosition:
    """How far a stream was read: the id of its last event, and the seconds until it may be read on."""

    last: str = ""
    pause: float = _PAUSE


class DirectCalls:
    """Calls of one connection to a server at a URL, which the SDK's ``client`` reaches by ``http``.

    ``changed`` is called when the server says that its tools have changed.
    """

    def __init__(
        self,
        transport: CheckedTransport,
        http: httpx2.AsyncClient,
        client: Client,
        changed: Callable[[], object],
    ) -> None:
        self._server = transport.server
        self._transport = transport
        self._http = http
        self._client = client
        self._changed = changed
        self._is_usual = client.protocol_version == VERSION
        self._number = _FIRST_NUMBER
        client_info = client.client_info or Implementation(name="capset", version="0")
        self._meta = {
            PROTOCOL_VERSION_META_KEY: VERSION,
            CLIENT_INFO_META_KEY: client_info.model_dump(by_alias=True, mode="json", exclude_none=True),
            CLIENT_CAPABILITIES_META_KEY: dict[str, Any](),
        }
        url = self._url = httpx2.URL(self._server.url or "")
        self._target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        self._headers: dict[str, list[tuple[bytes, bytes]]] = {}

    async def call(
        self, name: str, arguments: dict[str, Any], report: ProgressFnT | None, seconds: float
    ) -> ToolAnswer:
        """Call a tool with JSON, which may take so many seconds, and tell its progress to ``report``, if that is given.

        Raises ``ForTheSdk``, ``CallInterrupted``, and what a call by the SDK does: ``MCPError``, ``ValidationError``.
        """
        if not self._is_usual or self._http.cookies or not isinstance(get_tracer_provider(), ProxyTracerProvider):
            raise ForTheSdk
        self._number += 1
        call = _DirectCall(self._number, name, arguments, report)
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                outcome = await self._exchange(call)
        except TimeoutError:
            if not scope.expired():
                raise
            raise MCPError(REQUEST_TIMEOUT, f"Request {METHOD!r} timed out") from None
        return outcome if isinstance(outcome, ToolAnswer) else await self._go_on(call, outcome, seconds)

    async def _exchange(self, call: _DirectCall) -> _Result:
        try:
            response = await self._transport.open(self._request(call))
            try:
                return await self._read(response, call)
            finally:
                await response.aclose()
        except TransientError as error:
            raise CallInterrupted(error.message, is_sent=not isinstance(error, NotSent)) from None
        except ToolError as error:
            if error.code in OF_ONE_ANSWER:
                raise MCPError(INTERNAL_ERROR, error.message) from None
            raise CallInterrupted(error.message, is_sent=error.code not in _NOT_REACHED) from None

    def _request(self, call: _DirectCall) -> httpcore2.Request:
        meta: dict[str, Any] = dict(self._meta)
        if call.report is not None:
            meta["progressToken"] = call.number
        inject(meta)
        params = {"name": call.name, "arguments": call.arguments, "_meta": meta}
        body = _encode({"jsonrpc": "2.0", "id": call.number, "method": METHOD, "params": params}).encode()
        headers = [*self._headers_of(call.name), (b"content-length", b"%d" % len(body))]
        return httpcore2.Request(b"POST", self._target, headers=headers, content=body)

    def _headers_of(self, name: str) -> list[tuple[bytes, bytes]]:
        """Return the headers of a request that calls a tool: what the SDK would send, but the length."""
        raw = self._headers.get(name)
        if raw is None:
            headers = {
                **_ACCEPTED,
                "mcp-protocol-version": VERSION,
                "mcp-method": METHOD,
                "mcp-name": encode_header_value(name),
            }
            request = self._http.build_request("POST", self._url, headers=headers, content=b"")
            raw = [header for header in request.headers.raw if header[0].lower() != b"content-length"]
            self._headers[name] = raw
        return raw

    async def _read(self, response: httpcore2.Response, call: _DirectCall) -> _Result:
        headers = httpx2.Headers(response.headers)
        status, kind = response.status, headers.get("content-type", "").lower()
        if headers.get("content-encoding", "") not in ("", "identity"):
            raise compressed()
        if "set-cookie" in headers:  # the SDK's client keeps cookies
            self._is_usual = False
        if status == 202:
            raise MCPError(INVALID_REQUEST, "server answered a request with 202 Accepted")
        if status in REDIRECT_STATUSES and (location := headers.get("location")):
            raise self._redirected(status, location)
        is_json = kind.startswith("application/json")
        if status >= 400:
            raise await self._refusal(response) if is_json else _error_of(status)
        if is_json:
            body = await self._body(response)
            answer = read_plain(body, call.number)
            return outcome_of(read_message(body, "JSON response"), call.number) if answer is None else answer
        if kind.startswith(EVENTS):
            return await self._streamed(response, call)
        raise MCPError(INVALID_REQUEST, f"Unexpected content type: {kind}")

    def _redirected(self, status: int, location: str) -> Exception:
        """Return the error of a redirect: of one that may be followed, that the SDK is to do so, from now on."""
        if status in _SAME_METHOD:
            self._is_usual = False
            return ForTheSdk()
        to = self._url.join(location).copy_with(userinfo=b"", query=None, fragment=None)
        message = f"Redirect to {to} not followed; use that URL as the endpoint if it is the intended server"
        return MCPError(INVALID_REQUEST, message)

    async def _body(self, response: httpcore2.Response) -> bytes:
        """Return a body of at most one message. Raises ``ToolError`` for a longer one."""
        return b"".join([part async for part in self._bounded(response, None)])

    def _bounded(self, response: httpcore2.Response, meter: Meter | None) -> BoundedBody:
        ended = self._transport.ended if meter else None
        return BoundedBody(self._parts(response), self._server, meter, response.aclose, ended)

    async def _parts(self, response: httpcore2.Response) -> AsyncIterator[bytes]:
        with convert_failures(self._url.host):
            async for part in response.aiter_stream():
                yield part

    async def _refusal(self, response: httpcore2.Response) -> Exception:
        """Return the error in an answer whose status is one: of refused headers, that the SDK is to make the call."""
        body = await self._body(response)
        try:
            message = read_message(body, "JSON response")
        except MCPError:
            return _error_of(response.status)
        if not isinstance(message, JSONRPCError):
            return _error_of(response.status)
        # Only an error of HTTP says that nothing was begun.
        return ForTheSdk() if message.error.code == HEADER_MISMATCH else error_in(message)

    async def _streamed(self, response: httpcore2.Response, call: _DirectCall) -> _Result:
        """Return the result in a stream of events, and report the progress before it."""
        headers = {"content-type": EVENTS}
        stream = httpx2.Response(
            response.status,
            headers=headers,
            stream=self._bounded(response, self._transport.meter),
            request=httpx2.Request("POST", self._url),  # the source of events wants to name it in errors
        )
        position = _StreamPosition()
        if (outcome := await self._result_in(stream, call, position)) is None:
            await response.aclose()
            outcome = await self._read_on(call, position)
        return outcome

    async def _result_in(self, stream: httpx2.Response, call: _DirectCall, position: _StreamPosition) -> _Result | None:
        """Return the result in a stream, or nothing if it ends before; ``position`` says how far it was read."""
        try:
            async for event in httpx2.EventSource(stream, max_event_size=self._server.message_bytes):
                position.last = event.id or position.last
                position.pause = position.pause if event.retry is None else min(event.retry, _LONGEST) / 1_000
                if event.event != "message" or not event.data:
                    continue
                message = read_message(event.data, "SSE message")
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    return outcome_of(message)
                if isinstance(message, JSONRPCRequest):
                    await self._refuse(message)
                else:
                    await self._hear(message, call)
        except (httpx2.SSEError, httpx2.TransportError, TransientError):
            pass
        return None

    async def _read_on(self, call: _DirectCall, position: _StreamPosition) -> _Result:
        """Read on in a stream whose server has closed it, after the last event that came; the call is not made again.

        Raises ``CallInterrupted`` if it cannot be read on.
        """
        failures = 0
        while position.last and failures < _ATTEMPTS:
            await asyncio.sleep(max(position.pause, _LATER))
            headers = {b"accept": EVENTS.encode(), b"mcp-protocol-version": VERSION.encode()}
            headers[b"last-event-id"] = position.last.encode()
            try:
                async with self._http.stream("GET", self._url, headers=headers) as stream:
                    if not stream.is_success:
                        failures += 1
                    elif (outcome := await self._result_in(stream, call, position)) is not None:
                        return outcome
                    else:
                        failures = 0
            except (httpx2.TransportError, TransientError):
                failures += 1
        raise CallInterrupted

    async def _hear(self, message: JSONRPCNotification, call: _DirectCall) -> None:
        params = message.params or {}
        if message.method in _CHANGES:
            self._changed()
        elif message.method == "notifications/progress" and call.report is not None:
            progress, text = _number(params.get("progress")), params.get("message")
            if params.get("progressToken") == call.number and progress is not None:
                await call.report(progress, _number(params.get("total")), text if isinstance(text, str) else None)

    async def _refuse(self, request: JSONRPCRequest) -> None:
        """Refuse a request of the server's: since 2026-07-28 there are none."""
        error = ErrorData(code=METHOD_NOT_FOUND, message="Method not found", data=request.method)
        refusal = JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
        body = refusal.model_dump(by_alias=True, mode="json", exclude_unset=True)
        headers = {**_ACCEPTED, "mcp-protocol-version": VERSION}
        async with self._http.stream("POST", self._url, json=body, headers=headers):
            pass

    async def _go_on(self, call: _DirectCall, first: InputRequiredResult, seconds: float) -> ToolAnswer:
        """Go on with a call whose server wants it made again, which is the SDK's work, or refuse what it asks for."""
        session, state = self._client.session, first.request_state
        for key, request in (first.input_requests or {}).items():
            context = ClientRequestContext(session=session, request_id=key)
            if isinstance(refusal := await session.dispatch_input_request(context, request), ErrorData):
                raise MCPError(refusal.code, refusal.message, refusal.data)
        await asyncio.sleep(_LATER)
        return answer_of(
            await self._client.call_tool(
                call.name,
                call.arguments,
                read_timeout_seconds=seconds,
                progress_callback=call.report,
                request_state=state,
            )
        )


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _error_of(status: int) -> MCPError:
    """Return the error of a status whose answer has none."""
    if status == 404:
        return MCPError(METHOD_NOT_FOUND, "Not Found")
    error = refusal(status)
    return MCPError(error.code, error.message)
