"""Requests at a steady rate, whatever the answers take, and how long they took."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from lab.siege.connection import Answer, Connection

IDLE_SECONDS = 15.0
"""How long a connection may rest before it is used again: servers close those that rest for 30 seconds."""


class Timings:
    """How long work of each kind took, and what went otherwise than it should."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.odd: Counter[str] = Counter()

    def note(self, kind: str, seconds: float, problem: str | None = None) -> None:
        """Count one piece of work, and its problem if it has one."""
        self.seconds[kind].append(seconds)
        if problem is not None:
            self.odd[f"{kind}: {problem}"] += 1


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return how many there were, and their median, 95th and 99th percentile and maximum in milliseconds."""
    if len(seconds) < 2:
        milliseconds = statistics.fmean(seconds) * 1000 if seconds else 0.0
        return {"count": len(seconds), **dict.fromkeys(("p50", "p95", "p99", "max"), round(milliseconds, 1))}
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    quantile_seconds = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "max": max(seconds)}
    return {"count": len(seconds), **{name: round(value * 1000, 1) for name, value in quantile_seconds.items()}}


async def keep_pace(rate: float, seconds: float, work: Callable[[int, float], Awaitable[None]]) -> None:
    """Begin so many pieces of work a second, each at its time even if those before have not ended, and wait for all.

    Each gets its number and the time at which it was due, in ``time.perf_counter()`` seconds: what is measured from
    there counts the wait for a late one, too.
    """
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            due = started + number / rate
            if (delay := due - time.perf_counter()) > 0:
                await asyncio.sleep(delay)
            group.create_task(_begin(work, number, due))


async def _begin(work: Callable[[int, float], Awaitable[None]], number: int, due: float) -> None:
    await work(number, due)


class Connections:
    """Connections to a server that are used again, each by one request at a time; more are opened as needed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._free: list[tuple[Connection, float]] = []

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[Connection]:
        """Give a connection that nobody else uses meanwhile."""
        connection, since = self._free.pop() if self._free else (Connection(self.port), time.monotonic())
        if time.monotonic() - since > IDLE_SECONDS:
            connection.close()  # and open it again, before the server closes it under a request
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._free.append((connection, time.monotonic()))

    async def ask(self, request: bytes, timeout: float = 60.0) -> Answer:
        """Send a request on a free connection and return its whole answer. Raises ``TimeoutError``."""
        async with self.one() as connection, asyncio.timeout(timeout):
            return await connection.ask(request, whole=True)

    def close(self) -> None:
        """Close those that are free."""
        for connection, _ in self._free:
            connection.close()
        self._free.clear()
