"""Request bodies, read whole and within bounds, and clients that leave while they are served (spec 5, P15)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from starlette.types import Message, Receive

from capset.server.http.request_context import HttpRefusal

PATIENCE_SECONDS: Final = 0.05
"""How long work may take before it is watched: most calls finish sooner, and a watch would cost more than they do."""


def size_of(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the size of headers on the wire, in bytes."""
    size = 0
    for name, value in headers:
        size += len(name) + len(value) + 4
    return size


async def read_body(receive: Receive, declared: bytes | None, limit: int, seconds: float) -> bytes:
    """Return a request's whole body.

    Raises ``HttpRefusal`` for a body that is too large or too slow, ``ClientLeft`` if the client disconnected.
    """
    if declared is not None and declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
        raise _too_large(limit)
    message = await _next(receive, seconds)
    if not message.get("more_body"):
        body = message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        return body
    parts, size = [message.get("body", b"")], len(message.get("body", b""))
    while message.get("more_body"):
        message = await _next(receive, seconds)
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return b"".join(parts)


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
        raise HttpRefusal(408, "request_timeout", f"Nothing of the body came for {seconds:g} seconds") from None
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
