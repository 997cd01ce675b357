"""A clock that stands still until it is advanced."""

from __future__ import annotations

from typing import Final

START_NS: Final = 1_767_225_600_000_000_000
"""Start of a fake wall clock: 2026-01-01T00:00:00Z, in nanoseconds since the Unix epoch."""


class FakeClock:
    """A ``capset.clock.Clock`` for tests: both readings move together, and only by ``advance``."""

    def __init__(self, start_ns: int = START_NS) -> None:
        self._start_ns = start_ns
        self._passed_ns = 0

    def time_ns(self) -> int:
        """Nanoseconds since the Unix epoch, UTC."""
        return self._start_ns + self._passed_ns

    def monotonic_ns(self) -> int:
        """Nanoseconds advanced so far."""
        return self._passed_ns

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises ``ValueError`` for a negative time: clocks of this kind never go back."""
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds} s")
        self._passed_ns += round(seconds * 1_000_000_000)
