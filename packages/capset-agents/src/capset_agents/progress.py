"""Progress of a turn's calls, as events of the turn: the newest report of each call, at growing intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from capset.definitions.calls.messages import Message, Progress
from capset.wire.calls import progress_of

MIN_INTERVAL_SECONDS: Final = 0.5
"""The minimum time between two progress events of one call."""

Emit = Callable[[str, Mapping[str, Any]], None]
"""Adds an event to the turn."""


class CallProgress:
    """The progress of one call: ``with CallProgress(journal.emit, call, tool) as progress``, a listener of the call.

    Each event has the newest report; those between two events are dropped. No event follows the end of the call.
    """

    def __init__(self, emit: Emit, call: str, tool: str) -> None:
        """``call`` is the model's id of the call."""
        self._emit = emit
        self._call = {"call": call, "tool": tool}
        self._loop = asyncio.get_running_loop()
        self._began = self._next_time = self._loop.time()
        self._newest: Progress | None = None
        self._emitted: Progress | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop a report that was not emitted."""
        if self._timer is not None:
            self._timer.cancel()

    def __call__(self, message: Message) -> None:
        """Take a message of the call, and ignore it unless it is a progress report."""
        progress = progress_of(message)
        if progress is None:
            return
        self._newest = progress
        if self._timer is None:
            if self._loop.time() >= self._next_time:
                self._emit_newest()
            else:
                self._timer = self._loop.call_at(self._next_time, self._emit_newest)

    def _emit_newest(self) -> None:
        self._timer, newest, now = None, self._newest, self._loop.time()
        if newest is None or newest == self._emitted:
            return
        # The interval grows to a fiftieth of the call's run time: an hour has about 300 events.
        self._emitted, self._next_time = newest, now + max(MIN_INTERVAL_SECONDS, (now - self._began) / 50)
        message = newest.message and newest.message[:200].encode(errors="replace").decode()
        self._emit("tool.progress", {**self._call, "fraction": newest.fraction, "message": message})
