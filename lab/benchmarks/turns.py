"""Measuring jobs in turns, so that all meet the same noise: medians of each round, and the best of the rounds."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping

Job = Callable[[], Awaitable[object]]
"""Makes one call."""

_CALLS = 50
"""Calls in a block; the clock is read once before it and once after."""
_BLOCKS = (5, 20)
"""Blocks of a round, at least and at most."""
_ROUND_SECONDS = 0.03
"""How long a round of one job should take: it ends before the writer, which gathers for 100 ms, wakes up."""


async def in_turns(
    jobs: Mapping[str, Job], *, rounds: int, before: Callable[[], Awaitable[object]] | None = None
) -> dict[str, float]:
    """Return the microseconds of a call of each job, on the event loop: the median of its blocks in its best round.

    ``before`` is awaited before each job's turn, and not measured.
    """
    best = dict.fromkeys(jobs, float("inf"))
    blocks = {name: await _how_many(job) for name, job in jobs.items()}
    for _ in range(rounds):
        for name, job in jobs.items():
            if before is not None:
                await before()
            gc.collect()
            median = statistics.median([await _block(job) for _ in range(blocks[name])])
            best[name] = min(best[name], median)
    return best


async def together(job: Job, tasks: int, calls: int) -> None:
    """Make calls in so many tasks at once, each so many, one after the other."""

    async def make_calls() -> None:
        for _ in range(calls):
            await job()

    async with asyncio.TaskGroup() as group:
        for _ in range(tasks):
            group.create_task(make_calls())


async def _block(job: Job) -> float:
    began = time.perf_counter()
    for _ in range(_CALLS):
        await job()
    return (time.perf_counter() - began) / _CALLS * 1e6


async def _how_many(job: Job) -> int:
    """Return the blocks of a round, of a job that this has warmed up."""
    await _block(job)
    minimum, maximum = _BLOCKS
    return max(minimum, min(maximum, int(_ROUND_SECONDS / (await _block(job) * _CALLS / 1e6))))
