"""Callers in a process of their own, who keep one server as busy as it can be."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from lab.siege.connection import Connection
from lab.siege.tenants import call

CALL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Called:
    """What came of it: the seconds that each call took, answers other than 200, and the caller's own processor time."""

    seconds: list[float]
    odd: int
    cpu: float


def keep_busy(port: int, sessions: Sequence[tuple[str, str]], concurrency: int, seconds: float) -> Called:
    """Make calls with effects, each the next when the one before is answered, in sessions given with their keys."""
    return asyncio.run(_keep_busy(port, sessions, concurrency, seconds))


async def _keep_busy(port: int, sessions: Sequence[tuple[str, str]], concurrency: int, seconds: float) -> Called:
    until, began = time.monotonic() + seconds, time.process_time()
    taken: list[float] = []
    odd = 0

    async def work(place: int) -> None:
        nonlocal odd
        session, key = sessions[place % len(sessions)]
        http_request = call(session, key, "keep", text="a call with an effect")
        async with Connection(port) as connection:
            while time.monotonic() < until:
                started = time.perf_counter()
                async with asyncio.timeout(CALL_SECONDS):
                    answer = await connection.ask(http_request)
                taken.append(time.perf_counter() - started)
                odd += answer.status != 200

    await asyncio.gather(*(work(place) for place in range(concurrency)))
    return Called(taken, odd, time.process_time() - began)
