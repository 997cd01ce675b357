"""The writer of the server's log, in its own thread, so that an unread log blocks nothing else."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from threading import Condition, Thread
from time import time_ns
from typing import Any, BinaryIO, Final

from pydantic_core import to_json

from capset.clock import iso

MAX_PENDING: Final = 4 * 1024 * 1024
"""Maximum size of the lines that wait to be written, in bytes; further ones are dropped and counted."""
DRAIN_SECONDS: Final = 1.0
"""How long the shutdown of the server waits for the last lines to be written."""
IDLE_SECONDS: Final = 2.0
"""How long a writer without lines keeps its thread; the next line starts another."""
FLUSH_SECONDS: Final = 0.1
"""How long an access log line may wait to be written."""


def line_head(event: str, *, level: str, logger: str, time: str | None = None) -> dict[str, Any]:  # plain data
    """Return the members with which every line begins; ``time`` is ISO 8601 UTC, by default now."""
    return {"time": time or iso(time_ns()), "level": level, "logger": logger, "event": event}


class LogWriter:
    """Writes lines to a stream. Lines that the reader does not take are dropped, and a later line says how many."""

    def __init__(self, stream: BinaryIO) -> None:
        self._write = _writer_of(stream)
        self._pending: list[bytes] = []
        self._size = 0
        self._is_writing = False
        self._has_thread = False
        self._untold = 0
        self._changed = Condition()
        self.lost = 0
        """Number of dropped lines."""

    def put(self, lines: Iterable[bytes]) -> None:
        """Queue lines, or drop them if there is no room. Never blocks; any thread may call it."""
        with self._changed:
            for line in lines:
                if self._size + len(line) > MAX_PENDING:
                    self.lost += 1
                    self._untold += 1
                else:
                    self._pending.append(line)
                    self._size += len(line) + 1
            if not self._has_thread:
                self._has_thread = True
                # A daemon, so that a blocked stream does not keep the process from ending.
                Thread(target=self._run, name="capset-log", daemon=True).start()
            self._changed.notify_all()

    def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Wait until all lines are written, for a bounded time."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._pending or self._is_writing), seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                if not self._changed.wait_for(lambda: self._pending or self._untold, IDLE_SECONDS):
                    self._has_thread = False
                    return
                lines, self._pending, self._size = self._pending, [], 0
                if self._untold:
                    head = line_head("log_lines_lost", level="warning", logger="capset.server")
                    lines.append(to_json(head | {"lost": self._untold}))
                    self._untold = 0
                self._is_writing = True
            with suppress(OSError, ValueError):  # the log is closed
                self._write(b"\n".join(lines) + b"\n")


class AccessLog:
    """One line per request, passed to the log in batches: passing each on its own would cost as much as a call."""

    def __init__(self, log: LogWriter) -> None:
        self._log = log
        self._lines: list[bytes] = []

    def put(self, line: dict[str, Any]) -> None:  # plain data
        """Queue a line, to be written within ``FLUSH_SECONDS``."""
        if not self._lines:
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
        self._lines.append(to_json(line, fallback=repr))

    def flush(self) -> None:
        """Pass the queued lines to the log."""
        lines, self._lines = self._lines, []
        if lines:
            self._log.put(lines)


def _writer_of(stream: BinaryIO) -> Callable[[bytes], object]:
    """Return a function that writes to a stream without its buffer, for whose lock Python would wait at exit."""
    try:
        return partial(_write_to, stream.fileno())
    except OSError:  # a stream in memory
        return stream.write


def _write_to(descriptor: int, data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        try:
            remaining = remaining[os.write(descriptor, remaining) :]
        except BlockingIOError:  # another process has made the pipe non-blocking
            select.select([], [descriptor], [])
