"""UUIDv7 identifiers (RFC 9562 §5.7), cheap to reserve and formatted only when read.

A call reserves a *mark* on the hot path: one integer. Its text is computed later, by the audit writer or on request.
"""

from __future__ import annotations

import itertools
import os

from capset.clock import Clock, SystemClock

_COUNTER_BITS = 22
_COUNTER_MASK = (1 << _COUNTER_BITS) - 1


class Ids:
    """A source of UUIDv7 identifiers, increasing as long as the clock does not go back.

    The 12 bits after the version hold the fraction of the millisecond (RFC 9562 §6.2, method 3), the first 22
    of the last 62 a counter, and the other 40 are random for each source.
    """

    __slots__ = ("_count", "_source", "_time_ns")

    def __init__(self, clock: Clock | None = None) -> None:
        self._time_ns = (clock or SystemClock()).time_ns
        self._count = itertools.count().__next__
        self._source = int.from_bytes(os.urandom(5), "big")

    def mark(self) -> int:
        """Reserve an identifier: the time in nanoseconds above 22 bits of counter."""
        return self._time_ns() << _COUNTER_BITS | self._count() & _COUNTER_MASK

    def text(self, mark: int) -> str:
        """Return the identifier of a mark, in the usual 36 characters."""
        milliseconds, rest_ns = divmod(time_of(mark), 1_000_000)
        fraction, count = rest_ns * 4096 // 1_000_000, mark & _COUNTER_MASK
        return "%08x-%04x-7%03x-%04x-%012x" % (  # noqa: UP031  # takes half the time of slicing one 128-bit number
            milliseconds >> 16,
            milliseconds & 0xFFFF,
            fraction,
            0x8000 | count >> 8,
            (count & 0xFF) << 40 | self._source,
        )

    def new(self) -> str:
        """Return a new identifier."""
        return self.text(self.mark())


def time_of(mark: int) -> int:
    """Return the wall-clock time of a mark, in nanoseconds."""
    return mark >> _COUNTER_BITS
