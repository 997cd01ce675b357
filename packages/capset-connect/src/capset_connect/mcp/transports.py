"""HTTP transports to MCP servers, over connections to checked addresses (spec 7, M2, M100)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any, Final, cast

import httpcore2
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

from capset.errors import CapsetError, ToolError, TransientError
from capset.net.addresses import HostAllowlist, NotSent, system_resolver
from capset.net.connections import BUSY, CheckedNetwork, CheckedPool, convert_failures, tls_context
from capset.net.proxies import ProxySelector
from capset_connect.client_credentials import NO_TOKEN
from capset_connect.declarations import add_internal_hint
from capset_connect.mcp.answers import METHOD, VERSION
from capset_connect.mcp.lists.meter import METHODS, ListMeter
from capset_connect.mcp.server import McpServer
from capset_connect.mcp.server_headers import Headers, ServerHeaders

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
EVENTS: Final = "text/event-stream"
_PORTS: Final = {"http": 80, "https": 443}
_BURST: Final = 32
"""How many messages of the maximum size may arrive at once; after that, one a second."""
LEAST: Final = 1_024
"""The minimum number of bytes that a message counts as: many small ones take time, too."""
_DELETE_SECONDS: Final = 2.0
"""The timeout for the request that ends a session."""
_WHAT_TO_DO: Final[Mapping[int, str]] = {
    401: "declare a credential that it accepts, in `headers`, `oauth` or `auth`; a user connects another one",
    403: "the credential that was sent does not allow this",
}
"""Advice to the host for some HTTP statuses."""
SESSION_OVER: Final = -32_098
"""The code of the error of a request that was refused because its session is over.

If a server itself sends this code, the request is sent again in another session, as if the server had forgotten the
session.
"""
NOT_SENT: Final = -32_097
"""The code of the error of a request that was not sent because no connection could be made."""
INTERRUPTED: Final = -32_096
"""The code of the error of a request whose connection broke; its outcome is unknown."""
_SESSION: Final = "mcp-session-id"
_REVISION: Final = "mcp-protocol-version"
_FORGOTTEN: Final = frozenset({404, 410})
"""The statuses by which servers report that a session is over. A 400 counts if its text says so."""
_OF_SESSION: Final = re.compile(rb"session|not initiali[sz]ed", re.IGNORECASE)
NO_STREAMABLE_HTTP: Final = frozenset({400, 404, 405})
"""The statuses with which a server of the older transport answers a POST (2025-03-26, backwards compatibility)."""


class Meter:
    """Counts the bytes that a server sends, and raises ``ToolError`` if it floods the client."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._left, self._at = float(_BURST * server.message_bytes), monotonic()

    def count(self, size: int) -> None:
        """Count received bytes. Raises ``ToolError`` (``flooded``) if there are too many."""
        limit, now = self._server.message_bytes, monotonic()
        self._left = min(float(_BURST * limit), self._left + (now - self._at) * limit) - size
        self._at = now
        if self._left < 0:
            raise ToolError(
                f"it sent more than {_BURST} messages of {limit:,} bytes at once",
                code="flooded",
                status=502,
            )


def too_large(server: McpServer) -> ToolError:
    """Return the error for a message that is too long."""
    text = f"it sent a message of more than {server.message_bytes:,} bytes"
    return ToolError(text, code="too_large", status=502)


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Sends requests over connections to checked addresses, and limits the size of responses.

    Args:
        server: the declaration.
        ended: called with the reason when a failed request ends the connection.
        lists: counts the bytes of the server's lists.
        headers: renews the headers that the client sends, if the server refuses them.
        hide: called with the credentials that an OAuth flow sends.
        proxies: returns the proxy for a URL; no proxy is used if left out.
        is_sse: whether to use the older HTTP with SSE, where one stream carries all responses and its end is the end
            of the connection.
    """

    def __init__(
        self,
        server: McpServer,
        ended: Callable[[str], object],
        lists: ListMeter,
        *,
        headers: ServerHeaders | None = None,
        hide: Callable[[str], object] | None = None,
        proxies: ProxySelector | None = None,
        is_sse: bool = False,
    ) -> None:
        self.server: Final = server
        self._lists = lists
        self._url = httpx2.URL(server.url or "")
        self.meter: Final = Meter(server)
        self.ended: Final = ended
        self._headers = headers
        self._hide = hide
        self._is_sse = is_sse
        network = CheckedNetwork(system_resolver, HostAllowlist.parse(server.internal))
        self._pool = CheckedPool(network, partial(tls_context, server.ca_file), proxies)
        self.status: int | None = None
        """The status of the last response to a message."""
        self.is_forgotten = False
        """Whether the server has reported that the session is over."""

    def client(self, headers: Mapping[str, str], auth: httpx2.Auth | None) -> httpx2.AsyncClient:
        """Return a client that sends these headers with every request, and follows no redirects.

        The requests of ``auth`` to authorization servers are sent without them.
        """
        timeout = httpx2.Timeout(self.server.timeout, read=None)
        # The size of a compressed body is unknown until it is decoded.
        plain = {"accept-encoding": "identity"}
        return httpx2.AsyncClient(
            auth=auth,
            transport=self,
            headers={**headers, **plain},
            timeout=timeout,
            trust_env=False,
            follow_redirects=False,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request for the SDK, with limits on its reconnects and on its wait for the end of a session."""
        if self._hide is not None and (authorization := request.headers.get("authorization")):
            self._hide(authorization.partition(" ")[2])
        if request.method == "GET":  # the SDK reconnects without a pause
            try:
                self.meter.count(self.server.message_bytes)
            except ToolError as error:
                self.ended(error.message)
                raise
        if request.method != "DELETE":
            return await self._send(request)
        try:
            async with asyncio.timeout(_DELETE_SECONDS):
                answer = await self._send(request)
                await answer.aread()
                return answer
        except TimeoutError:
            raise httpx2.ReadTimeout("the request to end the session was not answered", request=request) from None

    async def open(self, request: httpcore2.Request) -> httpcore2.Response:
        """Send a request, and return its response, which the caller must close.

        A request that is refused with 401 is sent once more if its secrets or its token have changed. Raises
        ``ToolError`` and ``TransientError`` as ``convert_failures`` does, and ``ToolError`` (``mcp_error``) if there is
        no credential to send.
        """
        with convert_failures(request.url.host.decode("ascii")):
            if self._headers is None:
                return await self._pool.handle_async_request(request)
            sent = await _authorized(self._headers.current())
            response = await self._pool.handle_async_request(_with_headers(request, self._headers, sent))
            if response.status != 401:
                return response
            try:
                renewed = await _authorized(self._headers.renewed(sent))
            except BaseException:
                await response.aclose()
                raise
            if renewed == sent:
                return response
            await response.aclose()
            return await self._pool.handle_async_request(_with_headers(request, self._headers, renewed))

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        if self.is_forgotten and request.method == "DELETE":
            return httpx2.Response(204)
        url = request.url
        outgoing = httpcore2.Request(
            request.method,
            httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=cast("AsyncIterable[bytes]", request.stream),
            extensions=request.extensions,
        )
        try:
            response = await self.open(outgoing)
        # Over HTTP with SSE, answers come on another stream: only the end of the connection ends a call there.
        except TransientError as error:
            if error.code == BUSY and not self._is_sse:
                return _refused_message(error)
            if error.code == NO_TOKEN and not self._is_sse:
                return _refused_message(error, NOT_SENT)
            if _has_no_session(request) and _method_of(request) == METHOD:
                return _refused_message(error, NOT_SENT if isinstance(error, NotSent) else INTERRUPTED)
            self.ended(error.message)
            raise httpx2.ConnectError(error.message, request=request) from error
        except ToolError as error:
            if error.code in OF_ONE_ANSWER and not self._is_sse:
                return _refused_message(error)
            if self.server.agent is None:  # for a stored agent's server, only the operator can allow hosts
                error = add_internal_hint(error, url.host, url.port or _PORTS[url.scheme])
            self.ended(error.message)
            raise error from None
        if _is_forgotten(request, response.status):
            await response.aclose()
            return self._forgotten()
        if self._is_sse and request.method == "POST" and response.status >= 400:
            self.ended(refusal(response.status).message)  # no response will follow
            await response.aclose()
            return httpx2.Response(202)
        return await self._bounded(request, response)

    async def _bounded(self, request: httpx2.Request, response: httpcore2.Response) -> httpx2.Response:
        """Return a response for the SDK whose body is limited in size."""
        headers = httpx2.Headers(response.headers)
        is_message = request.method == "POST" and request.url == self._url  # others belong to the authentication
        if is_message:
            self.status = response.status
        if headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            error = compressed()
            if is_message:
                return _refused_message(error)
            self.ended(error.message)
            raise error
        is_stream = headers.get("content-type", "").startswith(EVENTS)
        if is_stream:  # always UTF-8; a server could name a slow codec
            headers["content-type"] = EVENTS
        # A resumed stream does not say which request it belongs to.
        is_list = request.method == "GET" or (is_message and _method_of(request) in METHODS)
        parts = cast("AsyncIterable[bytes]", response.stream)
        if self._is_sse and is_stream:
            parts = _until_end(parts, self.ended)
        answer = httpx2.Response(
            response.status,
            headers=headers,
            stream=BoundedBody(
                parts,
                self.server,
                self.meter if is_stream else None,
                response.aclose,
                None if is_message and not is_stream else self.ended,
                self._lists if is_list else None,
            ),
            extensions=cast("Any", response).extensions,
        )
        if is_message and not is_stream:
            try:
                with convert_failures(request.url.host):
                    await answer.aread()
            except TransientError as error:
                await answer.aclose()
                if not _has_no_session(request):
                    self.ended(error.message)
                return _refused_message(error, INTERRUPTED)
            except ToolError as error:  # concerns this message alone
                await answer.aclose()
                return _refused_message(error)
            if answer.status_code == 400 and _SESSION in request.headers and _OF_SESSION.search(answer.content):
                return self._forgotten()
        # 404 is left to the SDK, which reads it as an unknown method.
        if is_message and answer.is_error and answer.status_code != 404 and not await _is_mcp(answer):
            await answer.aclose()
            return _refused(answer)
        return answer

    def _forgotten(self) -> httpx2.Response:
        """End the connection, and refuse a request whose session is over: the server did not start it."""
        self.is_forgotten = True
        self.ended("it has forgotten the session")
        over = ToolError("it has forgotten the session", code="session_over", status=404)
        return _refused_message(over, SESSION_OVER)

    async def aclose(self) -> None:
        await self._pool.aclose()


def _has_no_session(request: httpx2.Request) -> bool:
    """Return whether a request stands alone (since 2026-07-28): if its connection breaks, no other is affected."""
    return request.method == "POST" and request.headers.get(_REVISION) == VERSION


def _is_forgotten(request: httpx2.Request, status: int) -> bool:
    """Return whether a status means that the session of a request is over.

    For a GET, only if it resumes a stream: many servers offer no stream, and answer 404.
    """
    if _SESSION not in request.headers:
        return False
    if request.method == "POST":
        return status in _FORGOTTEN
    return request.method == "GET" and status == 404 and "last-event-id" in request.headers


def _with_headers(request: httpcore2.Request, headers: ServerHeaders, current: Headers) -> httpcore2.Request:
    return httpcore2.Request(
        request.method,
        request.url,
        headers=headers.put(request.headers, current),
        content=request.stream,
        extensions=request.extensions,  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - httpcore's
    )


async def _authorized(headers: Awaitable[Headers]) -> Headers:
    """Return the headers. Raises ``ToolError`` (``mcp_error``) if they have no credential; nothing is sent.

    ``TransientError`` is raised if the credential cannot be renewed at the moment.
    """
    try:
        return await headers
    except TransientError as error:
        raise TransientError(f"its authorization failed: {error.message}", code=NO_TOKEN) from None
    except CapsetError as error:
        raise ToolError(f"its authorization failed: {error.message}", code="mcp_error", status=502) from None


async def _until_end(parts: AsyncIterable[bytes], ended: Callable[[str], object]) -> AsyncIterator[bytes]:
    """Yield the parts of a stream, and report its end."""
    try:
        async for part in parts:
            yield part
    finally:
        ended("it closed its stream")


def refusal(status: int) -> ErrorData:
    """Return the error for a response with this status and without an MCP message."""
    message = f"it answered {status} {httpx2.codes.get_reason_phrase(status)}".rstrip()
    if (what_to_do := _WHAT_TO_DO.get(status)) is not None:
        message = f"{message}: {what_to_do}"
    return ErrorData(code=INTERNAL_ERROR, message=message)


def _method_of(request: httpx2.Request) -> str | None:
    """Return the MCP method of a request of the SDK, if it has one."""
    return cast("dict[str, Any]", from_json(request.content)).get("method")


async def _is_mcp(answer: httpx2.Response) -> bool:
    """Return whether an HTTP error response contains an MCP error. Reads its body."""
    if not answer.headers.get("content-type", "").lower().startswith("application/json"):
        return False
    try:
        return isinstance(jsonrpc_message_adapter.validate_json(await answer.aread(), by_name=False), JSONRPCError)
    except ValidationError:
        return False


def _refused_message(error: CapsetError, code: int = INTERNAL_ERROR) -> httpx2.Response:
    """Return an MCP error response for a failure that concerns its own request alone."""
    error_data = ErrorData(code=code, message=error.message).model_dump(exclude_none=True)
    return httpx2.Response(error.status, json={"jsonrpc": "2.0", "id": None, "error": error_data})


def _refused(answer: httpx2.Response) -> httpx2.Response:
    """Return an HTTP error response as an MCP error, since the SDK would not report its status."""
    error = {"jsonrpc": "2.0", "id": None, "error": refusal(answer.status_code).model_dump(exclude_none=True)}
    challenge = [("www-authenticate", header) for header in answer.headers.get_list("www-authenticate")]
    return httpx2.Response(answer.status_code, headers=challenge, json=error)


@asynccontextmanager
async def http_streams(server: McpServer, client: httpx2.AsyncClient) -> AsyncGenerator[Streams]:
    """Yield the message streams of a server at a URL. Closes the client at the end."""
    async with (
        client,
        streamable_http_client(
            server.url or "", http_client=client, max_sse_event_size=server.message_bytes
        ) as streams,
    ):
        yield cast("Streams", streams)


@asynccontextmanager
async def sse_streams(server: McpServer, client: httpx2.AsyncClient) -> AsyncGenerator[Streams]:
    """Yield the message streams of a server that uses the older HTTP with SSE. Closes the client at the end.

    The SDK refuses an endpoint for messages at another origin than that of the stream.
    """

    def make(*_: object, **__: object) -> httpx2.AsyncClient:
        return client

    async with sse_client(server.url or "", httpx_client_factory=make) as streams:
        yield cast("Streams", streams)


OF_ONE_ANSWER: Final = frozenset({"mcp_error", "too_large"})
"""The codes of errors that concern one request alone: its response is compressed or too long, or it was not sent."""


def compressed() -> ToolError:
    """Return the error for a compressed response."""
    return ToolError("it sent a compressed response, which was not requested", code="mcp_error", status=502)


class BoundedBody(httpx2.AsyncByteStream):
    """A body of at most one message or, with a ``meter``, a stream of events at a limited rate.

    ``close`` closes the response. ``ended`` is called with the reason if refusing the body ends more than the body.
    ``lists`` counts the bytes of a list.
    """

    def __init__(
        self,
        parts: AsyncIterable[bytes],
        server: McpServer,
        meter: Meter | None,
        close: Callable[[], Awaitable[None]],
        ended: Callable[[str], object] | None,
        lists: ListMeter | None = None,
    ) -> None:
        self._parts, self._server, self._meter, self._close, self._ended = parts, server, meter, close, ended
        self._lists = lists

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._parts:
            size += len(part)
            try:
                if self._lists is not None:
                    self._lists.count(part)
                if self._meter is not None:
                    self._meter.count(len(part) + part.count(b"\n") * LEAST // 4)  # an event has at least three lines
                elif size > self._server.message_bytes:
                    raise too_large(self._server)
            except ToolError as error:
                if self._ended is not None:
                    self._ended(error.message)
                raise
            yield part

    async def aclose(self) -> None:
        await self._close()
