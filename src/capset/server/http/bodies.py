"""Request bodies, read whole and within bounds, and clients that leave while they are served (spec 5, P15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from time import monotonic
from types import TracebackType
from typing import Final, Self

from starlette.types import Message, Receive

from capset.server.http.request_context import HttpRefusal, overloaded

PATIENCE_SECONDS: Final = 0.05
"""How long work may take before it is watched: most calls finish sooner, and a watch would cost more than they do."""


def size_of(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the size of headers on the wire, in bytes."""
    size = 0
    for name, value in headers:
        size += len(name) + len(value) + 4
    return size


LARGE: Final = 64 * 1024
"""Bodies above this size are counted against the memory for bodies, and take turns."""


class BodyMemory:
    """The memory for large bodies: ``size`` bytes for all callers together, and ``share`` for each of them."""

    def __init__(self, size: int, share: int, seconds: float) -> None:
        self._free = size
        self._share = share
        self._seconds = seconds
        self._held: dict[object, int] = {}
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def hold(self, caller: object, size: int) -> AsyncGenerator[None]:
        """Hold memory for a body while inside. Raises ``HttpRefusal`` if none becomes free in time."""
        try:
            async with asyncio.timeout(self._seconds):
                while size > self._free or size + self._held.get(caller, 0) > self._share:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            told = f"There was no room for this body in {self._seconds:g} seconds: all bodies together fill the memory"
            raise overloaded(told) from None
        self._free -= size
        self._held[caller] = self._held.get(caller, 0) + size
        try:
            yield
        finally:
            self._free += size
            self._held[caller] -= size
            if not self._held[caller]:
                del self._held[caller]
            self._freed.set()


class Body:
    """A request's body that is still to be read, of at most ``limit`` bytes.

    ``seconds`` are those between two parts, and for each MiB in all.
    """

    def __init__(self, receive: Receive, headers: Mapping[bytes, bytes], limit: int, seconds: float) -> None:
        self._receive = receive
        self._limit = limit
        self._seconds = seconds
        declared = headers.get(b"content-length", b"0")
        self.size = limit
        """The size in bytes, or the largest that it can have."""
        if b"transfer-encoding" not in headers and declared.isdigit():
            if len(declared) > 18 or int(declared) > limit:
                raise _too_large(limit)
            self.size = int(declared)

    async def read(self) -> bytes:
        """Return the whole body.

        Raises ``HttpRefusal`` for a body that is too large or too slow, ``ClientLeft`` if the client disconnected.
        """
        message = await _next(self._receive, self._seconds)
        first: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if len(first) > self._limit:
                raise _too_large(self._limit)
            return first
        until = monotonic() + self._seconds * (2 + self.size / 2**20)
        body = BytesIO()  # its value is the body itself: joined parts would be a second copy
        body.write(first)
        while message.get("more_body"):
            message = await _next(self._receive, min(self._seconds, until - monotonic()))
            body.write(message.get("body", b""))
            if body.tell() > self._limit:
                raise _too_large(self._limit)
        return body.getvalue()


class ClientLeft(Exception):
    """The client disconnected before its request was complete."""


def replaying(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that replays a body that was already read, then passes on to the original."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed


async def _next(receive: Receive, seconds: float) -> Message:
    try:
        async with asyncio.timeout(seconds):
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

    ``receive`` must deliver nothing but the disconnect: the body has been read.
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
