"""HTTP/1.1 connections to one origin that are kept between requests, each to an address that was checked (spec 7, M17).

They are for many small requests: httpcore's take some ten times the processor time for each. Imports httptools, so it
is loaded only when needed.
"""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from typing import Final, Literal, NamedTuple, Self, cast

import httpcore2
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from capset.net.addresses import Allowed, Resolver
from capset.net.connections import (
    MAX_INTERIM,
    checked_addresses,
    convert_failures,
    first_connected,
    headers_too_long,
    too_many_interim,
    usual_tls,
)

MAX_CONNECTIONS: Final = 10
"""How many requests may run at once, as in a pool of httpcore's; others wait."""
_IDLE_SECONDS: Final = 4.0
"""How long an idle connection is used again: servers close it after five seconds and more, and not while it is used."""
_MAX_HEAD: Final = 100 * 1024
"""The maximum bytes of headers, and of what surrounds a body, beside eight for each byte of it."""
_ENOUGH: Final = 64 * 1024
"""How many bytes of a body are read ahead."""
_NO_BODY: Final = frozenset({204, 304})


class HttpOrigin(NamedTuple):
    """The server of a URL."""

    scheme: Literal["http", "https"]
    host: str
    port: int


class KeptConnections:
    """Connections to one origin, for one request at a time each; ``aclose`` closes all of them.

    ``tls`` has the trusted servers; those that the machine trusts if it is left out.
    """

    def __init__(
        self, origin: HttpOrigin, resolver: Resolver, allowed: Allowed, tls: ssl.SSLContext | None = None
    ) -> None:
        self._origin = origin
        self._resolver = resolver
        self._allowed = allowed
        self._tls = tls
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._open: set[_Connection] = set()
        self._idle: list[_Connection] = []
        self._is_closed = False

    async def send(self, request: bytes) -> KeptResponse:
        """Send a request as it is, and return its response, which has to be closed.

        Raises ``ToolError`` and ``TransientError`` as ``convert_failures`` does.
        """
        await self._slots.acquire()
        connection: _Connection | None = None
        try:
            with convert_failures(self._origin.host):
                connection = self._kept() or await self._connected()
                await connection.exchange(request)
        except BaseException:
            self.give_back(connection)
            raise
        return KeptResponse(self, connection)

    def give_back(self, connection: _Connection | None) -> None:
        """Keep a connection whose response was read to its end; close any other."""
        self._slots.release()
        if connection is None:
            return
        if connection.rest():
            self._idle.append(connection)
        else:
            connection.close()

    def forget(self, connection: _Connection) -> None:
        """Drop a connection that is closed."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    async def aclose(self) -> None:
        """Close all connections; what runs on them fails."""
        self._is_closed = True
        for connection in list(self._open):
            connection.close()

    def _kept(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh():
                return connection
            connection.close()
        return None

    async def _connected(self) -> _Connection:
        scheme, host, port = self._origin
        loop = asyncio.get_running_loop()

        async def connect(address: str, seconds: float | None) -> _Connection:
            try:
                async with asyncio.timeout(seconds):
                    made = await loop.create_connection(partial(_Connection, self, host), address, port)
                    return made[1]
            except TimeoutError as error:
                raise httpcore2.ConnectTimeout from error
            except OSError as error:
                raise httpcore2.ConnectError from error

        if self._is_closed:
            raise httpcore2.ConnectError
        addresses = await checked_addresses(host, port, self._resolver, self._allowed)
        connection = await first_connected(addresses, connect, None)
        self._open.add(connection)
        try:
            if scheme == "https":
                await connection.start_tls(self._tls or usual_tls(), host)
        except BaseException:
            connection.close()
            raise
        if self._is_closed:
            connection.close()
            raise httpcore2.ConnectError
        return connection


class KeptResponse:
    """A response whose headers have arrived: its status, its headers in lower case, and its body, read once."""

    __slots__ = ("_connection", "_connections", "headers", "status")

    def __init__(self, connections: KeptConnections, connection: _Connection) -> None:
        self._connections = connections
        self._connection: _Connection | None = connection
        self.status: Final = connection.status
        self.headers: Final = connection.headers

    def header(self, name: bytes) -> str:
        """Return the value of a header, those of several of one name together; empty if there is none."""
        return ", ".join(value.decode("latin-1") for one, value in self.headers if one == name)

    def whole(self, most: int) -> bytes | None:
        """Return the body, if all of it has arrived, and it is not longer than this."""
        connection = self._connection
        return connection.taken() if connection is not None and connection.is_all_here(most) else None

    def __aiter__(self) -> Self:
        """Iterate over the body in parts, as it arrives."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next part of the body. Raises ``TransientError`` if it breaks off."""
        connection = self._connection
        if connection is None:
            raise StopAsyncIteration
        with convert_failures(connection.host):
            part = await connection.part()
        if not part:
            raise StopAsyncIteration
        return part

    async def aclose(self) -> None:
        """Keep the connection for another request, if all of the body was read; close it otherwise."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connections.give_back(connection)


class _Connection(asyncio.Protocol):
    """A connection, and the response that it reads."""

    def __init__(self, connections: KeptConnections, host: str) -> None:
        self._connections = connections
        self.host = host
        self._parser = HttpResponseParser(self)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._has_asked = False
        self._idle_since = 0.0
        self._may_stay = self._is_paused = False
        self._reset()

    def _reset(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self._size = self._received = self._interim = 0
        self._is_headed = self._is_complete = self._is_framed = self._is_whole = False

    async def exchange(self, request: bytes) -> None:
        """Send a request, and return when its response has begun; if it is JSON, when it has ended, or is long."""
        self._reset()
        self._has_asked = True
        if self._transport is None or self._transport.is_closing():
            raise httpcore2.ReadError
        self._transport.write(request)
        while not self._is_headed or (self._is_whole and not self._is_complete and self._size < _ENOUGH):
            await self._more()

    def is_all_here(self, most: int) -> bool:
        """Return whether all of a body has arrived, and is not longer than this."""
        return self._is_complete and self._size <= most

    def taken(self) -> bytes:
        """Return what has arrived of the body and was not taken before."""
        body = bytes(self._body)
        self._body.clear()
        return body

    async def part(self) -> bytes:
        """Return the next part of the body, empty after the last one."""
        while not self._body and not self._is_complete:
            await self._more()
        return self.taken()

    def rest(self) -> bool:
        """Become idle, if the response was read to its end and another one may follow; return whether it is."""
        if not self._is_complete or self._body or self._failure is not None or not self._may_stay:
            return False
        if self._transport is None or self._transport.is_closing():
            return False
        if self._transport.get_write_buffer_size():  # it answered before it had read, and would keep what is sent here
            return False
        self._has_asked = False
        self._idle_since = self._loop.time()
        return True

    def is_fresh(self) -> bool:
        """Return whether an idle connection can be used again."""
        is_open = self._transport is not None and not self._transport.is_closing()
        return is_open and self._failure is None and self._loop.time() - self._idle_since < _IDLE_SECONDS

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Make it a connection over TLS."""
        context.set_alpn_protocols(["http/1.1"])
        try:
            transport = await self._loop.start_tls(
                cast("asyncio.Transport", self._transport), self, context, server_hostname=host
            )
        except OSError as error:  # as are those of TLS
            raise httpcore2.ConnectError from error
        if transport is None:
            raise httpcore2.ConnectError
        self._transport = transport

    def close(self) -> None:
        """Close it at once: what is still to be sent is not."""
        if self._transport is not None:
            self._transport.abort()
        self._fail(httpcore2.ReadError())
        self._connections.forget(self)

    async def _more(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self._failure is not None:
            raise self._failure

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._failure is None and not self._is_complete:
            self._failure = error
        self._wake()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._has_asked or self._is_complete:  # nothing more was asked for
            self._may_stay = False
            self.close()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._may_stay = False
            if not self._is_complete:
                self._fail(httpcore2.RemoteProtocolError(error))
        if not self._is_complete and self._received - self._size > _MAX_HEAD + 8 * self._size:
            self._fail(headers_too_long(self.host))
        if self._failure is not None:
            self.close()
            return
        is_long = len(self._body) >= _ENOUGH
        if self._is_complete or is_long or (self._is_headed and not self._is_whole):
            self._wake()
        if is_long and not self._is_complete and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        self._may_stay = False
        if self._is_headed and not self._is_framed and self._failure is None:
            self._is_complete = True
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_complete:
            self._fail(httpcore2.ReadError(exc) if exc is not None else httpcore2.RemoteProtocolError())
        self._may_stay = False
        self._transport = None
        self._connections.forget(self)

    def on_message_begin(self) -> None:
        if self._is_complete:
            raise httpcore2.RemoteProtocolError("there are two responses")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_headed:
            self.headers.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # another one follows
            self.headers = []
            self._interim += 1
            if self._interim > MAX_INTERIM:
                self._fail(too_many_interim(self.host))
            return
        self.status, self._is_headed = status, True
        names = {name for name, _ in self.headers}
        codings = {value.lower() for name, value in self.headers if name == b"transfer-encoding"}
        if codings - {b"chunked"}:
            raise httpcore2.RemoteProtocolError("the body has a coding that was not asked for")
        self._is_framed = bool(codings) or b"content-length" in names or status in _NO_BODY
        kind = next((value for name, value in self.headers if name == b"content-type"), b"")
        self._is_whole = kind.lower().startswith(b"application/json")

    def on_body(self, body: bytes) -> None:
        self._body += body
        self._size += len(body)

    def on_message_complete(self) -> None:
        if self._is_headed:
            self._is_complete = True
            self._may_stay = self._is_framed and self._parser.should_keep_alive()


def request_head(target: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return the head of a POST without its last line. Raises ``ValueError`` for what would end a line."""
    lines = [b"POST %b HTTP/1.1" % target, *(b"%b: %b" % one for one in headers)]
    if any(one in line for line in lines for one in (b"\r", b"\n", b"\0")):
        raise ValueError("a header has a line break in it")
    return b"\r\n".join(lines)
