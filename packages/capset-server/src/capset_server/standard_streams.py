"""Exclusive, non-blocking use of the process's standard streams for a protocol."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import stat
from collections.abc import Callable
from functools import partial
from typing import Final

from capset.kernel.call.fair_slots import Owner
from capset.kernel.call.worker_threads import Threads

_CHUNK: Final = 65536
_OWNER: Final = Owner(None, "")
"""The owner of both streams' work, in threads that have no other owner."""


class Streams:
    """Standard input and output, from now on to the end of the process.

    Descriptor 1 becomes standard error and descriptor 0 becomes empty, so that output of a handler, or of its child
    processes, cannot mix with what is written here. Blocking reads and writes run in threads that may be abandoned:
    a peer that neither writes nor reads does not keep the process from ending. Raises ``OSError`` if the streams do not
    exist.
    """

    __slots__ = ("_give", "_reading", "_threads", "_turn", "_writing")

    def __init__(self) -> None:
        self._reading = _private(0, os.open(os.devnull, os.O_RDONLY))
        self._writing = _private(1, os.dup(2))
        self._give = _giving(self._writing)
        self._threads = Threads()
        self._turn = asyncio.Lock()

    async def read(self) -> bytes:
        """Return the next available bytes, empty at the end."""
        return await self._threads.run(_OWNER, partial(_read, self._reading))

    async def write(self, data: bytes) -> None:
        """Write all of ``data``; return once the reader or the pipe has taken it. Raises ``OSError``."""
        async with self._turn:
            remaining = data[self._give(data) :]
            if remaining:
                await self._threads.run(_OWNER, partial(_write_all, self._writing, remaining))

    async def gone(self) -> None:
        """Return once the reader has disconnected; only pipes report that before a write."""
        loop = asyncio.get_running_loop()
        disconnected: asyncio.Future[None] = loop.create_future()

        def look() -> None:
            poll = select.poll()
            poll.register(self._writing, 0)
            if poll.poll(0) and not disconnected.done():
                disconnected.set_result(None)
            loop.remove_reader(self._writing)

        # A file has no reader to lose, and Windows offers no such notification.
        with contextlib.suppress(NotImplementedError, PermissionError):
            loop.add_reader(self._writing, look)
        try:
            await disconnected
        finally:
            with contextlib.suppress(NotImplementedError):  # on Windows, as above
                loop.remove_reader(self._writing)


def _private(descriptor: int, instead: int) -> int:
    """Replace a standard stream by another file, and return the stream under a private descriptor.

    This descriptor is never closed, since an abandoned thread may still be reading from it.
    """
    private = os.dup(descriptor)
    os.dup2(instead, descriptor)
    os.close(instead)
    return private


def _giving(descriptor: int) -> Callable[[bytes], int]:
    """Return a function that writes what fits without blocking, and returns its length. A thread would cost more.

    The stream itself may be shared with other processes, so it must not be made non-blocking.
    """
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return partial(os.write, descriptor)
    if stat.S_ISSOCK(mode) and hasattr(socket, "MSG_DONTWAIT"):
        connection = socket.socket(fileno=os.dup(descriptor))
        return _unless_full(lambda data: connection.send(data, socket.MSG_DONTWAIT))
    if stat.S_ISFIFO(mode):
        with contextlib.suppress(OSError):  # not Linux, or no permission to open it
            own_descriptor = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
            return _unless_full(partial(os.write, own_descriptor))
    return lambda data: 0


def _unless_full(write: Callable[[bytes], int]) -> Callable[[bytes], int]:
    def give(data: bytes) -> int:
        try:
            return write(data)
        except BlockingIOError:
            return 0

    return give


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK)
    except OSError:
        return b""  # disconnected


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
