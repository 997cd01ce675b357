"""Forced ends of queries: when the time is up, or the caller no longer waits."""

from __future__ import annotations

from threading import Event
from time import monotonic
from typing import Final

from capset import ToolError

STEP: Final = 0.1
"""Seconds between two checks of a waiting query."""


class Halt:
    """The end of one query, signalled to the thread that runs it."""

    __slots__ = ("_deadline", "_stopped", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._deadline = monotonic() + seconds
        self._stopped = Event()

    def stop(self) -> None:
        """End the query: its caller no longer waits."""
        self._stopped.set()

    @property
    def is_over(self) -> bool:
        """Whether the query has to end."""
        return self._stopped.is_set() or monotonic() >= self._deadline

    @property
    def left(self) -> float:
        """Its remaining seconds, always positive."""
        return max(self._deadline - monotonic(), 0.001)

    def error(self) -> ToolError:
        """Return the error for the model."""
        return ToolError(
            f"the query took longer than {self.seconds:g} s and was stopped; ask for less, or by an indexed column",
            code="query_timeout",
            status=504,
        )
