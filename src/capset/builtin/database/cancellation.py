"""When a query ends, whatever it does: its time is up, or nobody waits for it any more."""

from __future__ import annotations

from threading import Event
from time import monotonic
from typing import Final

from capset import ToolError

STEP: Final = 0.1
"""Seconds between two looks at the clock of whatever waits."""


class Halt:
    """The end of one query, told to the thread that runs it."""

    __slots__ = ("_deadline", "_stopped", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._deadline = monotonic() + seconds
        self._stopped = Event()

    def stop(self) -> None:
        """Say that nobody waits any more."""
        self._stopped.set()

    @property
    def is_over(self) -> bool:
        """Whether the query has to end."""
        return self._stopped.is_set() or monotonic() >= self._deadline

    @property
    def left(self) -> float:
        """How many seconds it has, more than none."""
        return max(self._deadline - monotonic(), 0.001)

    def error(self) -> ToolError:
        """Return what the model is told."""
        return ToolError(
            f"the query took longer than {self.seconds:g} s and was stopped; ask for less, or by an indexed column",
            code="query_timeout",
            status=504,
        )
