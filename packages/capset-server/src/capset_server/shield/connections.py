"""The connections of a server: their number is limited, and so is how slowly and how much they send (spec 5, P15)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any, Final, cast

from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from capset.errors import CapsetError
from capset.ids import Ids
from capset.wire.errors import MEDIA_TYPE, problem_of
from capset_server.http.request_context import ARRIVED
from capset_server.http.request_rules import HttpRefusal, RequestLimits

LINGER_SECONDS: Final = 2.0
"""How long a client that is still sending may read the last response, which closing at once would discard (RFC 9112
§9.6)."""
DISCARD_RATE: Final = 25_000_000
"""Bytes per second that are read of a discarded body: reading faster would take the loop from others."""
PIPELINED: Final = 16
"""How many requests of one connection may be queued before reading pauses."""


def protocol_with(limits: RequestLimits) -> type[HttpToolsProtocol]:
    """Return the protocol class with these limits, for uvicorn's option ``http``.

    A head that is too large is refused with 431, and one that is too slow with 408, before it is parsed.
    """
    connections = Connections(limits.connections)

    class Bounded(HttpToolsProtocol):
        def __init__(
            self,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, Any],  # uvicorn's
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            super().__init__(config, server_state, app_state, _loop)
            self._head = 0
            self._in_head = True
            self._in_body = False
            self._between = 0
            self._ended = 0
            self._patience: asyncio.TimerHandle | None = None
            self._unread: asyncio.TimerHandle | None = None
            self._refused = False
            self._running: RequestResponseCycle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(cast("asyncio.Transport", _Closing(transport, self._close, self.loop)))
            self._raw = transport
            self._address = str((transport.get_extra_info("peername") or ("",))[0])
            if connections.add(self, self._address, transport.abort):
                self._expect_head()
            else:
                self._refused = True
                transport.abort()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread = self.loop.call_later(limits.send_seconds, self._raw.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._unread is not None:
                self._unread.cancel()

        def connection_lost(self, exc: Exception | None) -> None:
            self._refused = True
            self._wait_no_more()
            connections.remove(self, self._address)
            if self._unread is not None:
                self._unread.cancel()
            super().connection_lost(exc)
            if self._running is not None and not self._running.response_complete:
                # uvicorn notifies only the request that came last, and another may be running.
                self._running.disconnected = True
                self._running.message_event.set()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._expect_head()

        def on_body(self, body: bytes) -> None:
            self._between = 0
            super().on_body(body)

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._wait_no_more()
            connections.work(self, self._address)
            names = [name for name, _ in self.headers]
            if names.count(b"host") > 1:
                raise ValueError("more than one Host")  # the parser makes it a 400 (RFC 9112 §3.2)
            if b"upgrade" in names and any(map(_brings_a_body, self.headers)):
                raise ValueError("an upgrade with a body")  # the parser would take the body for another request
            super().on_headers_complete()
            # The parser reports trailers as headers; they are not headers, and are ignored (RFC 9110 §6.5.1).
            self.headers = []
            if 0 < len(self.pipeline) <= PIPELINED:
                self.flow.resume_reading()  # otherwise a disconnect would go unnoticed
            self._in_body, self._between = True, 0

        def on_message_complete(self) -> None:
            self._in_body = False
            self._ended += 1
            super().on_message_complete()
            if not self._raw.is_closing():
                self._wait_no_more()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self._answering():
                connections.rest(self, self._address)
            if self._in_body and not self._refused:  # the rest of it is not read, and no other timer runs
                self._wait(LINGER_SECONDS, self._close_in_time)

        def data_received(self, data: bytes) -> None:
            if self._refused:
                return self._discard(len(data))
            ended = self._ended
            self._between += len(data)
            super().data_received(data)
            if self._in_body and not self._answering():
                self._discard(len(data))
            if self._in_body and self._between > limits.head and not self._refused:
                message = f"The parts of a body besides its content, such as trailers, have at most {limits.head} bytes"
                self._refuse(HttpRefusal(431, "headers_too_large", message))
            # The parser buffers an unfinished head itself; if another request ended in this data, the head's size is
            # unknown.
            if self._in_head and not self._refused and self._ended == ended:
                self._head += len(data)
                if self._head > limits.head:
                    message = f"A request's line and headers have at most {limits.head} bytes"
                    self._refuse(HttpRefusal(431, "headers_too_large", message))
            if self._patience is None and not (self._in_head or self._in_body or self._answering() or self._refused):
                self._wait(limits.head_seconds, self._lose_patience)  # blank lines start no request
            return None

        def _discard(self, size: int) -> None:
            """Pause reading for the time that ``size`` discarded bytes may take."""
            if not self._raw.is_closing():
                self._raw.pause_reading()
                self.loop.call_later(size / DISCARD_RATE, self._read_on)

        def _read_on(self) -> None:
            if not self._raw.is_closing() and (self._refused or not self.flow.read_paused):
                self._raw.resume_reading()

        def send_400_response(self, msg: str) -> None:
            self._refuse(HttpRefusal(400, "invalid_http", msg))

        def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # uvicorn's own ASGI types
            async def wholly(scope: Scope, receive: Receive, send: Send) -> None:
                scope[ARRIVED] = not cycle.more_body
                with contextlib.suppress(asyncio.CancelledError):  # on shutdown: the middleware has answered
                    await app(scope, receive, send)
                if cycle.response_started and not cycle.response_complete:
                    cycle.disconnected = True  # the client was dropped; it may never read the rest
                    self._raw.abort()

            self._running = cycle
            super()._start_asgi_task(cycle, cast("Any", wholly))

        def _expect_head(self) -> None:
            self._head, self._in_head = 0, True
            if self._patience is None:
                self._wait(limits.head_seconds, self._lose_patience)

        def _wait(self, seconds: float, then: Callable[[], None]) -> None:
            self._wait_no_more()
            self._patience = self.loop.call_later(seconds, then)

        def _wait_no_more(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

        def _lose_patience(self) -> None:
            self._patience = None
            if self._head or self._answering():
                message = f"The request's headers did not arrive within {limits.head_seconds:g} seconds"
                self._refuse(HttpRefusal(408, "request_timeout", message))
            else:
                self._close_in_time()

        def _answering(self) -> bool:
            cycle = cast("RequestResponseCycle | None", self.cycle)
            return cycle is not None and not cycle.response_complete

        def _refuse(self, error: CapsetError) -> None:
            """Refuse a malformed request, after the responses to earlier ones, and close the connection."""
            self._refused = True
            self._wait_no_more()
            if self._answering() and not self._in_body:
                self.cycle.keep_alive = False  # the answer under way goes first, then the connection closes
            elif self.pipeline or (self._in_body and self.cycle.response_started):
                self.transport.close()
            else:
                if self._answering():
                    self.cycle.disconnected = True
                    self.cycle.message_event.set()
                self.transport.write(_written(error))
                self.transport.close()

        def _close(self) -> None:
            """Close at once, unless the client is still sending: then let it read the response first."""
            if not (self._in_head or self._in_body) or not self._raw.can_write_eof():
                self._close_in_time()
            elif not self._raw.is_closing():
                self._refused = True
                self._raw.write_eof()
                self._raw.resume_reading()
                self._wait(LINGER_SECONDS, self._raw.abort)

        def _close_in_time(self) -> None:
            """Close once the client has read everything, or ``limits.send_seconds`` have passed."""
            self._raw.close()
            if self._raw.get_write_buffer_size():
                self._wait(limits.send_seconds, self._raw.abort)

    return Bounded


_HEAD: Final = b"HTTP/1."
"""The beginning of a response's head. A body that begins with it may be held as long, which does no harm."""


class _Closing:
    """A transport that closes by ``close``, and sends a response's head together with the data that follows at once.

    Two writes are two system calls and two segments, and wake the client twice (ADR 83).
    """

    def __init__(
        self, transport: asyncio.Transport, close: Callable[[], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._transport = transport
        self._close = close
        self._closed = False
        self._loop = loop
        self._head = b""
        self._flushing: asyncio.Handle | None = None

    def write(self, data: bytes) -> None:
        """Send data. A head is held until more data follows, or the next iteration of the event loop begins."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
            data = self._head + data
        elif data.startswith(_HEAD):
            self._head = data
            self._flushing = self._loop.call_soon(self.flush)
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Send a head that is held."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
            self._transport.write(self._head)

    def close(self) -> None:
        self._closed = True
        self.flush()
        self._close()

    def is_closing(self) -> bool:
        return self._closed or self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:  # any attribute of the transport
        return getattr(self._transport, name)


def _brings_a_body(header: tuple[bytes, bytes]) -> bool:
    name, value = header
    return name in (b"content-length", b"transfer-encoding") and value.strip() != b"0"


def _written(error: CapsetError) -> bytes:
    correlation = Ids().new()
    problem = problem_of(error, correlation)
    body = json.dumps(problem.plain()).encode()
    head = (
        f"HTTP/1.1 {problem.status} {problem.title}\r\n"
        f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
        f"x-correlation-id: {correlation}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


class Connections:
    """At most ``limit`` connections. At the limit, a new connection replaces the one that has been idle longest.

    That one belongs to the address with the most idle connections, so that no address closes those of others before its
    own. A connection is idle while it has no running request.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[object, Callable[[], None]] = {}
        self._idle: dict[str, dict[object, None]] = {}  # by address, longest first

    def add(self, connection: object, address: str, close: Callable[[], None]) -> bool:
        """Add an idle connection, which ``close`` closes. Return whether there was room for it."""
        if len(self._open) >= self._limit and not self._close_idle():
            return False
        self._open[connection] = close
        self.rest(connection, address)
        return True

    def rest(self, connection: object, address: str) -> None:
        """Mark a connection as idle."""
        if connection in self._open:
            self._idle.setdefault(address, {})[connection] = None

    def work(self, connection: object, address: str) -> None:
        """Mark a connection as busy with a request."""
        idle = self._idle.get(address, {})
        if connection in idle:
            del idle[connection]
            if not idle:
                del self._idle[address]

    def remove(self, connection: object, address: str) -> None:
        """Forget a connection that is closed."""
        self._open.pop(connection, None)
        self.work(connection, address)

    def _close_idle(self) -> bool:
        if not self._idle:
            return False
        address, idle = max(self._idle.items(), key=lambda item: len(item[1]))
        connection = next(iter(idle))
        close = self._open[connection]
        self.remove(connection, address)
        close()
        return True
