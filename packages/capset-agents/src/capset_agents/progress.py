"""Progress of a turn's calls, as events of the turn: the newest report of each call, at growing intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from capset.definitions.calls.messages import Message, Progress
from capset.wire.calls import progress_of

EVERY_SECONDS: Final = 0.5
"""The minimum time between two progress events of one call."""
_PART: Final = 50
"""The interval grows to the call's run time divided by this number: an hour has about 300 events."""
_MAX_MESSAGE: Final = 200
"""The maximum length of a message in an event."""

Emit = Callable[[str, Mapping[str, Any]], None]
"""Adds an event to the turn."""


class CallProgress:
    """The progress of one call: ``with CallProgress(journal.emit, call, tool) as progress``, a listener of the call.

    Each event has the newest report; those between two events are dropped. No event follows the end of the call.
    """

    def __init__(self, emit: Emit, call: str, tool: str) -> None:
        """``call`` is the model's id of the call."""
        self._emit = emit
        self._about = {"call": call, "tool": tool}
        self._loop = asyncio.get_running_loop()
        self._began = self._next = self._loop.time()
        self._newest: Progress | None = None
        self._told: Progress | None = None
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
            if self._loop.time() >= self._next:
                self._tell()
            else:
                self._timer = self._loop.call_at(self._next, self._tell)

    def _tell(self) -> None:
        self._timer, newest, now = None, self._newest, self._loop.time()
        if newest is None or newest == self._told:
            return
        self._told, self._next = newest, now + max(EVERY_SECONDS, (now - self._began) / _PART)
        message = newest.message and newest.message[:_MAX_MESSAGE].encode(errors="replace").decode()
        self._emit("tool.progress", {**self._about, "fraction": newest.fraction, "message": message})
