"""Request bodies, read whole and within bounds, and clients that leave while they are served (spec 5, P15)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping
from io import BytesIO
from time import monotonic
from types import TracebackType
from typing import Final, Self

from starlette.types import Message, Receive, Send

from capset.schemas.strict_json import ValueCounter
from capset.server.http.fair_shares import TRANSFER_SECONDS, charge
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
PART: Final = 256 * 1024
"""The size of the parts in which a longer answer is sent, each when its client has taken the one before."""


JSON_COPIES: Final = 4
"""How often a JSON body is held: as it came, as its values, as text for the tool, and in what is made of that."""


class BodyMemory:
    """The memory for large bodies and downloads: ``size`` bytes for all callers together, ``share`` for each."""

    def __init__(self, size: int, share: int, seconds: float) -> None:
        self._free = size
        self._share = share
        self._seconds = seconds
        self._held: dict[object, int] = {}
        self._freed = asyncio.Event()

    def hold(self, caller: object) -> Reservation:
        """Return a reservation of this caller, to be entered; it is given back at the end."""
        return Reservation(self, caller)

    def give_back(self, caller: object, size: int) -> None:
        """Give back memory of a caller."""
        self._add(caller, -size)
        self._freed.set()

    async def wait(self, caller: object, size: int) -> None:
        """Wait for more memory for a caller. Raises ``HttpRefusal`` if none becomes free in time."""
        try:
            async with asyncio.timeout(self._seconds):
                while size > self._free or size + self._held.get(caller, 0) > self._share:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            told = f"Bodies that came before fill the memory for them, for more than {self._seconds:g} seconds: retry"
            raise overloaded(told) from None
        self._add(caller, size)

    def _add(self, caller: object, size: int) -> None:
        self._free -= size
        held = self._held.pop(caller, 0) + size
        if held:
            self._held[caller] = held


class Reservation:
    """Memory for one body, more of it as it grows."""

    def __init__(self, memory: BodyMemory, caller: object) -> None:
        self._memory = memory
        self._caller = caller
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.size:
            self._memory.give_back(self._caller, self.size)

    async def grow(self, size: int) -> None:
        """Make it at least this size. Raises ``HttpRefusal`` if no memory becomes free in time."""
        if size > self.size:
            await self._memory.wait(self._caller, size - self.size)
            self.size = size


def declared_size(headers: Mapping[bytes, bytes]) -> int | None:
    """Return the size in bytes that a body is declared to have, ``None`` for one that comes in chunks."""
    if b"transfer-encoding" in headers:
        return None
    declared = headers.get(b"content-length", b"0")
    return None if not declared.isdigit() else sys.maxsize if len(declared) > 18 else int(declared)


class RequestBody:
    """A request's body that is still to be read, of at most ``limit`` bytes.

    ``values`` is the maximum number of values in it, if it is JSON; ``seconds`` are those between two parts, and for
    each MiB in all. Nothing limits the wait for a body that has ``arrived`` whole.
    """

    def __init__(
        self,
        receive: Receive,
        headers: Mapping[bytes, bytes],
        limit: int,
        seconds: float,
        values: int | None,
        *,
        arrived: bool = False,
    ) -> None:
        self._receive = receive
        self._limit = limit
        self._seconds = seconds
        self._values = values
        self._has_arrived = arrived
        self._counter = ValueCounter()
        self.size = declared_size(headers)
        if self.size is not None and self.size > limit:
            raise _too_large(limit)

    async def read(self, reservation: Reservation | None) -> bytes:
        """Return the whole body; above ``LARGE``, it grows within the ``reservation`` of its caller, if there is one.

        Raises ``HttpRefusal`` for a body that is too large or too slow, has too many values, or finds no memory, and
        ``ClientLeft`` if the client disconnected.
        """
        copies = 1 if self._values is None else JSON_COPIES
        if reservation is not None and self.size is not None and self.size > LARGE:
            await reservation.grow(copies * self.size)
        message = await _next(self._receive, None if self._has_arrived else self._seconds)
        first: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if len(first) > self._limit:
                raise _too_large(self._limit)
            if self._values is not None and len(first) > self._values:
                self._count(first)
            return first
        self._count(first)
        until = monotonic() + self._seconds * (2 + (self.size or self._limit) / 2**20)
        body = BytesIO()  # its value is the body itself: joined parts would be a second copy
        body.write(first)
        while message.get("more_body"):
            message = await _next(self._receive, min(self._seconds, until - monotonic()))
            part: bytes = message.get("body", b"")
            charge(TRANSFER_SECONDS * len(part) / 2**20)
            body.write(part)
            size = body.tell()
            self._count(part)
            if size > self._limit:
                raise _too_large(self._limit)
            if reservation is not None and size > LARGE and copies * size > reservation.size:
                await reservation.grow(copies * min(self._limit, 2 * size))
        return body.getvalue()

    def _count(self, part: bytes) -> None:
        """Raise ``HttpRefusal`` if what came so far has too many values."""
        if self._values is not None and self._counter.feed(part) > self._values:
            raise HttpRefusal(413, "too_many_values", f"A JSON body has at most {self._values} values here")


async def send_in_parts(send: Send, message: Message, seconds: float) -> None:
    """Send a long body in parts. Raises ``ClientLeft`` if the client takes none for so many seconds."""
    body = memoryview(message["body"])
    try:
        for at in range(0, len(body), PART):
            charge(TRANSFER_SECONDS * PART / 2**20)
            more = message.get("more_body", False) or at + PART < len(body)
            async with asyncio.timeout(seconds):
                await send({**message, "body": bytes(body[at : at + PART]), "more_body": more})
    except TimeoutError:
        raise ClientLeft from None


class ClientLeft(Exception):
    """The client disconnected before its request was complete."""


def replaying(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that replays a body that was already read, then passes on to the original."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed


async def _next(receive: Receive, seconds: float | None) -> Message:
    try:
        if seconds is None:
            message = await receive()
        else:
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
