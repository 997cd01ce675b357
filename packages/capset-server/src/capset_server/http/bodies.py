"""Request bodies within bounds, and the detection of clients that disconnect (spec 5, P15)."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from os import SEEK_END
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import BinaryIO, Final, Self, cast

from starlette.types import Message, Receive, Send

from capset.schemas.strict_json import ValueCounter
from capset_server.http.request_rules import LARGE, BodyBounds, HttpRefusal, overloaded
from capset_server.shield.guard import UNGUARDED, RequestGuard

_log = logging.getLogger("capset.server")
PATIENCE_SECONDS: Final = 0.05
"""How long work may take before its client is watched: most calls end sooner, and a watch costs more than they do."""


PART: Final = 256 * 1024
"""The size in bytes of the parts of a long response; each is sent once the client has accepted the previous one."""
BODY_RATE: Final = 16_000
"""The minimum rate of a body after its first seconds, in bytes per second."""
JSON_COPIES: Final = 4
"""How many copies of a JSON body are held: as received, parsed, as text for the tool, and parsed again from that."""


def declared_size(headers: Mapping[bytes, bytes]) -> int | None:
    """Return the declared size of a body in bytes, ``None`` if it is chunked or its size is not a number."""
    if b"transfer-encoding" in headers:
        return None
    declared = headers.get(b"content-length", b"0")
    return None if not declared.isdigit() else sys.maxsize if len(declared) > 18 else int(declared)


class RequestBody:
    """The body of a request, within bounds, as ``content`` or as a ``file``.

    After ``seconds``, at least ``BODY_RATE`` bytes per second must arrive; a body that has ``arrived`` whole has no
    timeout. A large body takes memory and a transfer from ``guard``, and ``take_turn`` is awaited with its size before
    it is used.
    """

    def __init__(
        self,
        receive: Receive,
        size: int | None,
        bounds: BodyBounds,
        seconds: float,
        *,
        arrived: bool = False,
        guard: RequestGuard = UNGUARDED,
        take_turn: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self._receive = receive
        self._size = size
        self._limit, self._values = bounds
        self._seconds = seconds
        self._has_arrived = arrived
        self._guard = guard
        self._take_turn = take_turn
        self._content: bytes | None = None
        self._is_received = False
        self.is_large: Final = size is None or size > LARGE
        """Whether the body is read only on demand."""
        if size is not None and size > bounds.size:
            raise _too_large(bounds.size)

    async def content(self) -> bytes:
        """Return the whole body.

        Raises ``HttpRefusal`` if the body is too large or too slow, has too many values, or there is no room for it,
        and ``ClientLeft`` if the client disconnected.
        """
        if self._content is None:
            if not self.is_large:
                self._content = b"".join([part async for part in self._parts()])
                return self._content
            async with self.file() as file:
                size = file.seek(0, SEEK_END)
                if size > LARGE:
                    await self._guard.grow(size * (1 if self._values is None else JSON_COPIES))
                file.seek(0)
                self._content = file.read()
        return self._content

    @asynccontextmanager
    async def file(self) -> AsyncGenerator[BinaryIO]:
        """Yield the body as an open file, a temporary one if the body is large. Raises like ``content``."""
        if self._content is not None or not self.is_large:
            yield BytesIO(await self.content())
            return
        self._is_received = True
        async with self._guard.transfer():
            with SpooledTemporaryFile(max_size=LARGE) as file:
                async for part in self._parts():
                    try:
                        file.write(part)
                    except OSError as error:
                        _log.error("a large body cannot be written to the temporary folder: %s", error.strerror)
                        raise overloaded("This server has no room for large bodies now: retry later") from None
                if self._take_turn is not None:
                    await self._take_turn(file.tell())
                yield cast("BinaryIO", file)

    async def _parts(self) -> AsyncGenerator[bytes]:
        loop, received, counter = asyncio.get_running_loop(), 0, None
        began, more = loop.time(), True
        while more:
            until = None if self._has_arrived else began + self._seconds + received / BODY_RATE
            message = await _next(self._receive, until)
            part: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            received += len(part)
            if received > self._limit:
                raise _too_large(self._limit)
            if self._values is not None and (more or received > self._values):
                counter = counter or ValueCounter()
                if counter.feed(part) > self._values:
                    raise HttpRefusal(413, "too_many_values", f"A JSON body has at most {self._values} values here")
            yield part

    async def receive(self) -> Message:
        """Return the body, and then further messages: the ASGI ``receive`` for an application."""
        if self._is_received:
            return await self._receive()
        content, self._content = await self.content(), b""  # released: an idle connection keeps its last request
        self._is_received = True
        return {"type": "http.request", "body": content, "more_body": False}


async def send_in_parts(send: Send, message: Message, seconds: float) -> None:
    """Send a long body in parts. Raises ``ClientLeft`` if the client does not accept one within ``seconds``."""
    body = memoryview(message["body"])
    try:
        for at in range(0, len(body), PART):
            more = message.get("more_body", False) or at + PART < len(body)
            async with asyncio.timeout(seconds):
                await send({**message, "body": bytes(body[at : at + PART]), "more_body": more})
    except TimeoutError:
        raise ClientLeft from None


class ClientLeft(Exception):
    """The client disconnected before its request was complete."""


class BrokenOff(ClientLeft):
    """The response cannot be completed: its connection is closed before the end of the body."""


def replaying(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that replays a body that was already read, then delegates to the original."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed


async def _next(receive: Receive, until: float | None) -> Message:
    try:
        if until is None:
            message = await receive()
        else:
            async with asyncio.timeout_at(until):
                message = await receive()
    except TimeoutError:
        raise HttpRefusal(408, "request_timeout", "The body came too slowly, or stopped coming") from None
    if message["type"] == "http.disconnect":
        raise ClientLeft
    return message


def _too_large(limit: int) -> HttpRefusal:
    return HttpRefusal(413, "body_too_large", f"A body has at most {limit} bytes here")


class DisconnectWatch:
    """Context manager that cancels the work when the client disconnects; the work then ends in ``ClientLeft``.

    The body must have been read, so that ``receive`` delivers only the disconnect.
    """

    __slots__ = ("_handle", "_left", "_receive", "_task", "_worker")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = False
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        """Start watching after ``PATIENCE_SECONDS``."""
        self._worker = asyncio.current_task()
        self._handle = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._start)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching. Raises ``ClientLeft`` if the work was cancelled because the client disconnected."""
        self._handle.cancel()
        if self._task is not None:
            self._task.cancel()
        if self._left and isinstance(error, asyncio.CancelledError) and self._worker is not None:
            self._worker.uncancel()
            raise ClientLeft from None

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left = True
        if self._worker is not None:
            self._worker.cancel()
