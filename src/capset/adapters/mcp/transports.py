"""Transports to MCP servers: processes with the declared environment, HTTP to checked addresses (spec 7, M2)."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import sys
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final, cast

import anyio
import httpcore2
import httpx2
from anyio.abc import ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

from capset.adapters.declarations import add_internal_hint
from capset.adapters.mcp import keeper
from capset.adapters.mcp.lists import MEMBERS, METHODS, ListMeter
from capset.adapters.mcp.server import McpServer
from capset.adapters.offers import shown
from capset.errors import DefinitionError, ToolError, TransientError
from capset.net.addresses import Allowed, Resolver, system_resolver
from capset.net.connections import CheckedNetwork, CheckedPool, convert_failures, usual_tls

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
EVENTS: Final = "text/event-stream"
_PORTS: Final = {"http": 80, "https": 443}
_BURST: Final = 32
"""How many messages of the maximum size may come at once; after that, one a second."""
_GRACE_SECONDS: Final = 2.0
"""How long a process may take to end once its input is closed."""
_END_SECONDS: Final = keeper.GRACE_SECONDS + 5.0
"""How long its keeper may take to end it, and all that it has started."""
_KEEPER: Final = (sys.executable, "-I", "-S", keeper.__file__)
_LEAST: Final = 1_024
"""What a message counts for at least: many small ones take time, too."""
_LAST_WORDS: Final = 1_024
_PARTS: Final = 8
"""How many parts of what a process writes on stderr are kept, and bytes of each, for the message of its failure."""
_WHAT_TO_DO: Final[Mapping[int, str]] = {
    401: "declare a credential that it takes in `headers`",
    403: "the credential in `headers` does not allow this",
}
"""Advice to the host for some HTTP statuses."""


class Meter:
    """Counts what a server sends, and raises ``ToolError`` for one that floods."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._left, self._at = float(_BURST * server.message_bytes), monotonic()

    def count(self, size: int) -> None:
        """Count bytes that arrived. Raises ``ToolError`` (``flooded``) for too many."""
        most, now = self._server.message_bytes, monotonic()
        self._left = min(float(_BURST * most), self._left + (now - self._at) * most) - size
        self._at = now
        if self._left < 0:
            raise ToolError(
                f"it sent more than {_BURST} messages of {most:,} bytes at once",
                code="flooded",
                status=502,
            )


@asynccontextmanager
async def process_streams(
    server: McpServer, env: Mapping[str, str], ended: Callable[[str], object], lists: ListMeter
) -> AsyncGenerator[Streams]:
    """Start the process of a server, and yield the streams of its messages.

    It is the leader of a session of its own. All that it has started is ended with it, by its ``keeper``. ``ended`` is
    told why nothing comes from it any more. Raises ``DefinitionError`` if it cannot be started.
    """
    process = await _start(server, env)
    received, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    said = deque[bytes](maxlen=_PARTS)
    tasks = [
        asyncio.create_task(_read(server, process, received, said, ended, lists)),
        asyncio.create_task(_write(process, sent)),
        asyncio.create_task(_listen(process, said)),
    ]
    try:
        yield reading, writing
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await process.aclose()
        for stream in (received, reading, writing, sent):
            stream.close()


async def _start(server: McpServer, env: Mapping[str, str]) -> Process:
    program, *arguments = server.command
    found = shutil.which(program)
    if found is None:
        raise DefinitionError(f"MCP server {server.name!r}: there is no program {program!r} on this machine's path")
    try:
        command = [*_KEEPER, found, *arguments]
        return await anyio.open_process(command, env=dict(env), cwd=server.cwd, start_new_session=True)
    except OSError as error:
        raise DefinitionError(f"MCP server {server.name!r} cannot be started: {error.strerror}") from None


async def _read(
    server: McpServer,
    process: Process,
    received: MemoryObjectSendStream[SessionMessage | Exception],
    said: Iterable[bytes],
    ended: Callable[[str], object],
    lists: ListMeter,
) -> None:
    """Pass on each message that the process writes, until it writes no more, or more than it may."""
    meter, why = Meter(server), "it closed its output"
    async with received:
        try:
            async for line in _lines(server, cast("AsyncIterable[bytes]", process.stdout)):
                meter.count(max(len(line) + 1, _LEAST))
                # What is no message is no answer to anything; a call without an answer ends by its timeout.
                with contextlib.suppress(ValueError):
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    if isinstance(message, JSONRPCResponse) and not MEMBERS.isdisjoint(message.result):
                        lists.count(line)
                    await received.send(SessionMessage(message))
            if words := await _last_words(process, said):
                why = f"it ended, and the last that it wrote was {words}"
        except ToolError as error:
            why = error.message
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        ended(why)


async def _lines(server: McpServer, parts: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a stream. Raises ``ToolError`` for one that is too long."""
    rest = bytearray()
    async for part in parts:
        *lines, last = part.split(b"\n")
        for line in lines:
            rest += line
            yield bytes(rest)
            rest.clear()
        rest += last
        if len(rest) > server.message_bytes:
            raise too_large(server)


async def _write(process: Process, sent: MemoryObjectReceiveStream[SessionMessage]) -> None:
    stream = cast("ByteSendStream", process.stdin)
    async with sent:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for one in sent:
                await stream.send(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")


async def _listen(process: Process, said: deque[bytes]) -> None:
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for part in cast("AsyncIterable[bytes]", process.stderr):
            said.append(part[-_LAST_WORDS:])


async def _last_words(process: Process, said: Iterable[bytes]) -> str:
    """Return the last line that a process wrote on stderr before it ended, with everything visible that is not."""
    with anyio.move_on_after(_GRACE_SECONDS):
        await process.wait()
        await asyncio.sleep(0.05)  # what it wrote last may still be on its way
    lines = b"".join(said).decode(errors="replace").strip().splitlines()
    return shown(lines[-1]) if lines else ""


def too_large(server: McpServer) -> ToolError:
    """Return the error of a message that is too long."""
    text = f"it sent a message of more than {server.message_bytes:,} bytes"
    return ToolError(text, code="too_large", status=502)


async def _end(process: Process) -> None:
    """Close its input, and have its keeper end it if it goes on after that."""
    await cast("ByteSendStream", process.stdin).aclose()
    for number, seconds in ((None, _GRACE_SECONDS), (signal.SIGTERM, _END_SECONDS), (signal.SIGKILL, _GRACE_SECONDS)):
        if number is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
        with anyio.move_on_after(seconds):
            await process.wait()
            return


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Sends requests over connections to checked addresses, and bounds what comes back.

    ``ended`` is told why nothing comes any more, where a request fails; ``hide``, which credentials a flow of OAuth
    sends. ``lists`` counts what the server says of its tools.
    """

    def __init__(
        self,
        server: McpServer,
        ended: Callable[[str], object],
        lists: ListMeter | None = None,
        hide: Callable[[str], object] | None = None,
        resolver: Resolver = system_resolver,
    ) -> None:
        self.server: Final = server
        self._lists = lists or ListMeter(server)
        self._url = httpx2.URL(server.url or "")
        self.meter: Final = Meter(server)
        self.resolver: Final = resolver
        self.allowed: Final = Allowed.read(server.internal)
        self.ended: Final = ended
        self._hide = hide
        self._network = CheckedNetwork(
            resolver, self.allowed, cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())
        )
        self._pool = CheckedPool(ssl_context=usual_tls(), network_backend=self._network)

    def client(self, headers: Mapping[str, str], auth: httpx2.Auth | None) -> httpx2.AsyncClient:
        """Return a client that sends these headers with every request, and follows no redirects.

        Requests that ``auth`` makes, to authorization servers, are sent none of them.
        """
        timeout = httpx2.Timeout(self.server.timeout, read=None)
        # What is compressed has no size before it is decoded.
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
        """Send a request of the SDK's, which asks again without a pause, and waits for the end of a session."""
        if self._hide is not None and (authorization := request.headers.get("authorization")):
            self._hide(authorization.partition(" ")[2])
        if request.method == "GET":
            try:
                self.meter.count(self.server.message_bytes)
            except ToolError as error:
                self.ended(error.message)
                raise
        if request.method != "DELETE":
            return await self._send(request)
        try:
            async with asyncio.timeout(_GRACE_SECONDS):
                answer = await self._send(request)
                await answer.aread()
                return answer
        except TimeoutError:
            raise httpx2.ReadTimeout("its end was not answered", request=request) from None

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        asked = httpcore2.Request(
            request.method,
            httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=cast("AsyncIterable[bytes]", request.stream),
            extensions=request.extensions,
        )
        try:
            with convert_failures(url.host):
                response = await self._pool.handle_async_request(asked)
        except TransientError as error:
            self.ended(error.message)
            raise httpx2.ConnectError(error.message, request=request) from error
        except ToolError as error:
            told = error  # what a stored agent's server may lead to is its operator's
            if self.server.agent is None:
                told = add_internal_hint(error, url.host, url.port or _PORTS[url.scheme])
            self.ended(told.message)
            raise told from None
        headers = httpx2.Headers(response.headers)
        is_message = request.method == "POST" and url == self._url  # others are those of an authentication
        if headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            error = compressed()
            if is_message:
                return _refused_message(error)
            self.ended(error.message)
            raise error
        is_stream = headers.get("content-type", "").startswith(EVENTS)
        if is_stream:  # is UTF-8; a server could name a codec that takes long
            headers["content-type"] = EVENTS
        # A stream that is resumed does not say which request it belongs to.
        is_list = request.method == "GET" or (is_message and _method_of(request) in METHODS)
        parts = cast("AsyncIterable[bytes]", response.stream)
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
                await answer.aread()
            except ToolError as error:  # of this message alone
                await answer.aclose()
                return _refused_message(error)
        # 404 is left to the SDK: to it, a method is not there or a session has ended.
        if is_message and answer.is_error and answer.status_code != 404 and not await _is_mcp(answer):
            await answer.aclose()
            return _refused(answer)
        return answer

    async def aclose(self) -> None:
        await self._pool.aclose()
        await self._network.aclose()


def refusal(status: int) -> ErrorData:
    """Return the error of a server that answers a message with this status, and says nothing of MCP."""
    said = f"it answered {status} {httpx2.codes.get_reason_phrase(status)}".rstrip()
    if (what_to_do := _WHAT_TO_DO.get(status)) is not None:
        said = f"{said}: {what_to_do}"
    return ErrorData(code=INTERNAL_ERROR, message=said)


def _method_of(request: httpx2.Request) -> str | None:
    """Return the method of MCP of a request of the SDK's, if it has one."""
    return cast("dict[str, Any]", from_json(request.content)).get("method")


async def _is_mcp(answer: httpx2.Response) -> bool:
    """Return whether an answer with an error of HTTP has one of MCP in it; its body is read."""
    if not answer.headers.get("content-type", "").lower().startswith("application/json"):
        return False
    try:
        return isinstance(jsonrpc_message_adapter.validate_json(await answer.aread(), by_name=False), JSONRPCError)
    except ValidationError:
        return False


def _refused_message(error: ToolError) -> httpx2.Response:
    """Return an answer that is refused here as an error of MCP: it concerns its own request alone."""
    told = ErrorData(code=INTERNAL_ERROR, message=error.message).model_dump(exclude_none=True)
    return httpx2.Response(error.status, json={"jsonrpc": "2.0", "id": None, "error": told})


def _refused(answer: httpx2.Response) -> httpx2.Response:
    """Return an error of HTTP as one of MCP, since the SDK would not tell its status."""
    error = {"jsonrpc": "2.0", "id": None, "error": refusal(answer.status_code).model_dump(exclude_none=True)}
    challenge = [("www-authenticate", one) for one in answer.headers.get_list("www-authenticate")]
    return httpx2.Response(answer.status_code, headers=challenge, json=error)


@asynccontextmanager
async def http_streams(server: McpServer, client: httpx2.AsyncClient) -> AsyncGenerator[Streams]:
    """Yield the streams of messages of a server at a URL. The client is closed with them."""
    async with (
        client,
        streamable_http_client(
            server.url or "", http_client=client, max_sse_event_size=server.message_bytes
        ) as streams,
    ):
        yield cast("Streams", streams)


OF_ONE_ANSWER: Final = frozenset({"mcp_error", "too_large"})
"""The codes of errors that concern one answer alone: it is compressed, or too long."""


def compressed() -> ToolError:
    """Return the error of an answer that is compressed."""
    return ToolError("it sent a compressed answer, which was not asked for", code="mcp_error", status=502)


class BoundedBody(httpx2.AsyncByteStream):
    """A body of at most one message, or with a ``meter`` a stream of events at a bounded pace.

    ``close`` ends it; ``ended`` is told why a body is refused, where more than the body ends with it; ``lists`` counts
    the body of a list.
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
                    self._meter.count(len(part) + part.count(b"\n") * _LEAST // 4)  # an event has at least three lines
                elif size > self._server.message_bytes:
                    raise too_large(self._server)
            except ToolError as error:
                if self._ended is not None:
                    self._ended(error.message)
                raise
            yield part

    async def aclose(self) -> None:
        await self._close()
