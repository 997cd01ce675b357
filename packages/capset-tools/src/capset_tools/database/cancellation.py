"""Cancellation of queries: on timeout, or when the caller no longer waits."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Event, Lock, Timer
from time import monotonic
from typing import Final

GRACE_SECONDS: Final = 0.5
"""Seconds after its deadline at which a query is ended by force; until then the database may cancel it cleanly."""


class Halt:
    """The deadline and the cancellation of one query, for the thread that runs it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._stopped = Event()
        self._lock = Lock()
        self._end: Callable[[], object] | None = None
        self.begin()

    def begin(self) -> None:
        """Start the query's time limit now."""
        self._deadline = monotonic() + self.seconds

    def stop(self) -> None:
        """Cancel the query, since its caller no longer waits."""
        self._stopped.set()
        self._call_end()

    @contextmanager
    def ending(self, end: Callable[[], object]) -> Generator[None]:
        """Call ``end`` if the query has to end before the context exits, never later. ``end`` must return quickly."""
        timer = Timer(self.left + GRACE_SECONDS, self._call_end)
        timer.daemon = True
        with self._lock:
            self._end = end
        timer.start()
        try:
            if self._stopped.is_set():
                self._call_end()
            yield
        finally:
            timer.cancel()
            with self._lock:
                self._end = None

    def _call_end(self) -> None:
        with self._lock:
            if self._end is not None:
                self._end()

    @property
    def is_over(self) -> bool:
        """Whether the query was cancelled or its time is up."""
        return self._stopped.is_set() or monotonic() >= self._deadline

    @property
    def left(self) -> float:
        """The remaining seconds, always positive."""
        return max(self._deadline - monotonic(), 0.001)
