"""A connection to PostgreSQL that is left when its query has to end, or when too much comes in (spec 4, G30)."""

from __future__ import annotations

import struct
import sys
from selectors import EVENT_READ, DefaultSelector
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready

from capset.builtin.database.halting import STEP, Halt

if sys.platform == "win32":

    def _waiting(_file: int) -> int:
        return 0
else:
    import fcntl
    import termios

    def _waiting(file: int) -> int:
        """Return how many bytes have come that nobody has read."""
        return struct.unpack("i", fcntl.ioctl(file, termios.FIONREAD, b"\0\0\0\0"))[0]


T = TypeVar("T")


class Halted(Exception):
    """The query has to end."""


class TooMuch(Exception):
    """More came in than the caps can make use of."""


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):  # rows of any types
    """A connection whose every wait looks at a ``Halt``, and at how much has come in.

    The server's own timeout can be changed by a query (``set_config``), and a single row can have gigabytes: libpq
    reads all of it before anybody sees it. What is counted is not more than what came, and may be a third of it; on
    Windows nothing is counted.
    """

    halt: Halt | None = None
    allowance: int = sys.maxsize
    """How many more bytes may come in."""

    def wait(self, gen: PQGen[T], interval: float = STEP, timeout: float | None = None) -> T:
        """Do what the driver does, until its end or that of the query. Raises ``Halted`` and ``TooMuch``."""
        if self.halt is None:
            return super().wait(gen, interval) if timeout is None else super().wait(gen, interval, timeout)
        file = self.pgconn.socket
        try:
            wanted = next(gen)
            with DefaultSelector() as selector:
                selector.register(file, wanted)
                while True:
                    if self.halt.is_over:
                        raise Halted
                    ready = selector.select(STEP)
                    if not ready:
                        gen.send(Ready.NONE)
                        continue
                    events = ready[0][1]
                    before = _waiting(file) if events & EVENT_READ else 0
                    wanted = gen.send(Ready(events))
                    self.allowance -= max(before - _waiting(file), 0) if before else 0
                    if self.allowance < 0:
                        raise TooMuch
                    selector.modify(file, wanted)
        except StopIteration as end:
            return end.value
