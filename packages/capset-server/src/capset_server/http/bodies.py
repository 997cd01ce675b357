"""Request bodies, read whole and within bounds, and clients that leave while they are served (spec 5, P15)."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from io import BytesIO
from os import SEEK_END
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import BinaryIO, Final, Self, cast
from weakref import WeakValueDictionary

from starlette.types import Message, Receive, Send

from capset.definitions.principals import Principal
from capset.kernel.call.fair_slots import FairSlots, Owner, owner_of
from capset.schemas.strict_json import ValueCounter
from capset_server.http.request_context import HttpRefusal, overloaded

_log = logging.getLogger("capset.server")
PATIENCE_SECONDS: Final = 0.05
"""How long work may take before it is watched: most calls finish sooner, and a watch would cost more than they do."""


def size_of(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the size of headers on the wire, in bytes."""
    size = 0
    for name, value in headers:
        size += len(name) + len(value) + 4
    return size


LARGE: Final = 64 * 1024
"""Larger bodies are read only when their sender may send them, and go to a temporary file as they come."""
PART: Final = 256 * 1024
"""The size of the parts in which a longer answer is sent, each when its client has taken the one before."""
BODY_RATE: Final = 16_000
"""Bytes of a body that have to come each second, once its first seconds are over."""
OWN_TRANSFERS: Final = 2
"""Large bodies and downloads of one principal at once."""
ORG_TRANSFERS: Final = 8
"""Those of one organisation."""
JSON_COPIES: Final = 4
"""How often a JSON body is held: as it came, as its values, as text for the tool, and in what is made of that."""
MEMORY_UNIT: Final = 64 * 1024
"""Bytes of memory for JSON that one slot stands for."""


class Transfers:
    """The large bodies and downloads under way: a few of each principal, and of each organisation."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._of_owner = WeakValueDictionary[Owner, asyncio.Semaphore]()
        self._of_org = WeakValueDictionary[tuple[str | None], asyncio.Semaphore]()

    @asynccontextmanager
    async def take(self, principal: Principal) -> AsyncGenerator[None]:
        """Wait until one more may begin. Raises ``HttpRefusal`` if it may not in time."""
        owner = owner_of(principal)
        own = self._of_owner.setdefault(owner, asyncio.Semaphore(OWN_TRANSFERS))
        shared = self._of_org.setdefault((owner.org,), asyncio.Semaphore(ORG_TRANSFERS))
        async with AsyncExitStack() as taken:
            try:
                async with asyncio.timeout(self._seconds):
                    await taken.enter_async_context(own)
                    await taken.enter_async_context(shared)
            except TimeoutError:
                refusal = HttpRefusal(
                    429,
                    "too_many_transfers",
                    f"At most {OWN_TRANSFERS} large bodies and downloads of a principal, and {ORG_TRANSFERS} of an "
                    f"organisation, are under way at once; none ended in {self._seconds:g} seconds: retry later",
                    retryable=True,
                )
                refusal.retry_after = 1.0
                raise refusal from None
            yield


class Reservation:
    """Memory that a request holds for JSON, in slots of ``MEMORY_UNIT`` bytes. It is given back at the end."""

    def __init__(self, slots: FairSlots, principal: Principal, seconds: float) -> None:
        self._slots = slots
        self._owner = owner_of(principal)
        self._seconds = seconds
        self._units = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._units:
            self._slots.release(self._owner, self._units)

    async def grow(self, size: int) -> None:
        """Hold this many bytes at least. Raises ``HttpRefusal`` if no memory becomes free in time."""
        most = (self._slots.total + 1) // 2  # that a caller is ever given
        more = min(-(-size // MEMORY_UNIT), most) - self._units
        if more > 0 and not self._slots.take(self._owner, more):
            try:
                async with asyncio.timeout(self._seconds):
                    await self._slots.wait(self._owner, more)
            except TimeoutError:
                raise overloaded(f"Others hold the memory for JSON for {self._seconds:g} seconds: retry") from None
        self._units += max(more, 0)


def declared_size(headers: Mapping[bytes, bytes]) -> int | None:
    """Return the size in bytes that a body is declared to have, ``None`` for one that comes in chunks."""
    if b"transfer-encoding" in headers:
        return None
    declared = headers.get(b"content-length", b"0")
    return None if not declared.isdigit() else sys.maxsize if len(declared) > 18 else int(declared)


class RequestBody:
    """A request's body of at most ``limit`` bytes: ``content``, or a ``file`` of it.

    ``values`` is the maximum number of values in it, if it is JSON. After ``seconds``, ``BODY_RATE`` bytes a second
    have to come; nothing limits the wait for a body that has ``arrived`` whole. ``transfer`` and ``memory`` are taken
    for a large one, and ``take_turn`` is awaited with its size before it is used.
    """

    def __init__(
        self,
        receive: Receive,
        size: int | None,
        limit: int,
        seconds: float,
        values: int | None,
        *,
        arrived: bool = False,
        transfer: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        memory: Reservation | None = None,
        take_turn: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self._receive = receive
        self._size = size
        self._limit = limit
        self._seconds = seconds
        self._values = values
        self._has_arrived = arrived
        self._transfer = transfer
        self._memory = memory
        self._take_turn = take_turn
        self._content: bytes | None = None
        self._is_received = False
        self.is_large: Final = size is None or size > LARGE
        """Whether it is read when it is asked for, not before."""
        if size is not None and size > limit:
            raise _too_large(limit)

    async def content(self) -> bytes:
        """Return the whole body.

        Raises ``HttpRefusal`` for a body that is too large or too slow, has too many values, or finds no room, and
        ``ClientLeft`` if the client disconnected.
        """
        if self._content is None:
            if not self.is_large:
                self._content = b"".join([part async for part in self._parts()])
                return self._content
            async with self.file() as file:
                size = file.seek(0, SEEK_END)
                if self._memory is not None and size > LARGE:
                    await self._memory.grow(size * (1 if self._values is None else JSON_COPIES))
                file.seek(0)
                self._content = file.read()
        return self._content

    @asynccontextmanager
    async def file(self) -> AsyncGenerator[BinaryIO]:
        """Yield the body as an open file, which is temporary if it is large. Raises as ``content`` does."""
        if self._content is not None or not self.is_large:
            yield BytesIO(await self.content())
            return
        self._is_received = True
        async with self._transfer():
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
        loop, received, counter = asyncio.get_running_loop(), 0, ValueCounter()
        began, more = loop.time(), True
        while more:
            until = None if self._has_arrived else began + self._seconds + received / BODY_RATE
            message = await _next(self._receive, until)
            part: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            received += len(part)
            if received > self._limit:
                raise _too_large(self._limit)
            if self._values is not None and (more or received > self._values) and counter.feed(part) > self._values:
                raise HttpRefusal(413, "too_many_values", f"A JSON body has at most {self._values} values here")
            yield part

    async def receive(self) -> Message:
        """Return the body, and then what else comes: the ASGI ``receive`` of an application."""
        if self._is_received:
            return await self._receive()
        content, self._content = await self.content(), b""  # held no more: an idle connection keeps its last request
        self._is_received = True
        return {"type": "http.request", "body": content, "more_body": False}


async def send_in_parts(send: Send, message: Message, seconds: float) -> None:
    """Send a long body in parts. Raises ``ClientLeft`` if the client takes none for so many seconds."""
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
    """The answer cannot be completed: its connection is closed without the end of the body."""


def replaying(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that replays a body that was already read, then passes on to the original."""
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
