"""Open sessions of one agent in a process: the memory that each takes, and opening one among few and among many."""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

from capset import Agent, Capability, Kernel, Principal, tool
from lab.benchmarks.row import Row
from lab.benchmarks.streams import resident_mb

EACH, FLAT = 12, 1.5
"""kB of a session; and times the opening of one among the first thousand."""
COUNT, COUNT_QUICKLY, FIRST = 20_000, 2_000, 1_000


@tool(effect="read")
async def look(a: int) -> int:
    """Look."""
    return a


AGENT = Agent("bench", uses=[Capability("kit", tools=[look])])


def measure(*, quick: bool) -> list[Row]:
    """Return both rows."""
    count = COUNT_QUICKLY if quick else COUNT
    first, last = measured((FIRST, count))
    opened = {f"among {point['count']:,}": f"{point['microseconds']:.1f} µs" for point in (first, last)}
    return [
        Row(
            f"memory of an open session, of {count:,}",
            round(last["kilobytes"], 1),
            "kB",
            EACH,
            "at most",
            {f"of {first['count']:,}": f"{first['kilobytes']:.1f} kB"},
        ),
        Row(
            f"opening a session and a call, of {count:,}",
            round(last["microseconds"] / first["microseconds"], 2),
            f"times the same among the first {FIRST:,}",
            FLAT,
            "at most",
            opened,
        ),
    ]


def measured(counts: Sequence[int]) -> list[dict[str, float]]:
    """Return what holds at each ``count``: the ``kilobytes`` of a session, and the ``microseconds`` of the last ones.

    It is measured in a process of its own, which held nothing before.
    """
    command = [sys.executable, "-m", "lab.benchmarks.open_sessions", *map(str, counts)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


async def _measure(counts: Sequence[int]) -> list[dict[str, float]]:
    points: list[dict[str, float]] = []
    async with Kernel(store="memory://") as kernel, AsyncExitStack() as stack:
        await _open(kernel, stack)
        before, opened = resident_mb(), 0
        for count in counts:
            times: list[float] = []
            for _ in range(count - opened):
                began = time.perf_counter()
                await _open(kernel, stack)
                times.append((time.perf_counter() - began) * 1e6)
            await kernel.audit.flush()
            opened = count
            each = (resident_mb() - before) / count * 1e3
            points.append({"count": count, "kilobytes": each, "microseconds": statistics.median(times[-FIRST:])})
    return points


async def _open(kernel: Kernel, stack: AsyncExitStack) -> None:
    """Open a session, which stays open, and make a call in it."""
    session = await stack.enter_async_context(kernel.open(AGENT, principal=Principal("ada")))
    await session.call(look, a=1)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure([int(argument) for argument in sys.argv[1:]]))))
