"""One session's state, written by 64 tasks in each of 1 and 4 processes, on SQLite (spec 1, C34)."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from capset import Kernel
from lab.benchmarks import writers
from lab.benchmarks.row import Row

TASKS = 64
TARGET = 100
"""Operations a second, of all processes together: enough for agents, and far below what a quiet machine does."""


def measure(*, quick: bool) -> list[Row]:
    """Return how many increments, pushes, patches and updates a second are durable, by turns, of all processes."""
    operations = 200 if quick else 10_000
    single, four = (asyncio.run(_rate(processes, operations)) for processes in (1, 4))
    peers = {"1 process": f"{single:.0f}/s", "4 processes": f"{four:.0f}/s", "tasks in each": str(TASKS)}
    return [Row("state: operations on one session", round(four), "a second, 4 processes", TARGET, "at least", peers)]


async def _rate(processes: int, operations: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder)}/capset.db"
        async with Kernel(store=url) as kernel, kernel.open(writers.AGENT, principal=writers.WHO) as session:
            each = operations // processes
            running = [writers.start(url, session.id, f"p{number}", TASKS, each) for number in range(processes)]
            outputs = await asyncio.gather(*(asyncio.to_thread(process.communicate, "go\n") for process in running))
    return operations / max(float(seconds) for seconds, _ in outputs)
