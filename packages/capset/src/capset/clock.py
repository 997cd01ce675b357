"""Replaceable clocks: the kernel never reads the system time directly."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from math import ceil
from typing import Protocol


class Clock(Protocol):
    """A wall clock, for records, and a monotonic clock, for durations."""

    def time_ns(self) -> int:
        """Return nanoseconds since the Unix epoch, UTC."""
        ...

    def monotonic_ns(self) -> int:
        """Return nanoseconds since an arbitrary start; the value never decreases."""
        ...


class SystemClock:
    """The clocks of the system."""

    time_ns = staticmethod(time.time_ns)
    monotonic_ns = staticmethod(time.perf_counter_ns)


def elapsed_ms(since_ns: int, clock: Clock | None = None) -> float:
    """Return the milliseconds since a monotonic reading of ``clock``, by default the system clock."""
    return ((clock or SystemClock()).monotonic_ns() - since_ns) / 1e6


def iso(time_ns: int) -> str:
    """Format a wall-clock reading as ISO 8601 UTC with microseconds; the fixed width makes text sort by time."""
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    return f"{_second(seconds)}.{nanoseconds // 1000:06d}Z"


def iso_of(time: datetime) -> str:
    """Format an aware datetime like ``iso``; clamp a time that UTC cannot represent to the ends of the calendar."""
    try:
        utc = time.astimezone(UTC)
    except OverflowError:
        utc = (datetime.min if time.year == 1 else datetime.max).replace(tzinfo=UTC)  # noqa: DTZ901 - it gets one
    return f"{utc.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def duration_text(seconds: float) -> str:
    """Return a duration for people, such as ``12.5 s``, ``3 min`` or ``23 h 56 min``.

    Above two minutes it is rounded up, to hours from one day on.
    """
    if seconds <= 120:
        return f"{seconds:g} s"
    minutes = ceil(seconds / 60)
    if minutes > 24 * 60:
        minutes = ceil(minutes / 60) * 60
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return " ".join(f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if count)


@lru_cache(64)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
