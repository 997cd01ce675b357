"""Records in an SQLite file: writing them, their newest page, verifying them all, and the room that each takes."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from capset import Agent, Kernel, Principal, tool
from capset.stores.base import AuditQuery
from lab.benchmarks.curves.curve import Curve

PART, ROUNDS = 1_000, 40
"""Records that are queued before the writer is waited for; and how often a page is read."""
RATED = 20_000
"""The last records before a count, whose writing is measured."""


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def measure(counts: Sequence[int]) -> list[Curve]:
    """Return what each costs at each number of records."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder, "bench.db"), counts))


async def _measure(path: Path, counts: Sequence[int]) -> list[Curve]:
    write_rates: dict[int, float] = {}
    verified: dict[int, float] = {}
    page: dict[int, float] = {}
    room: dict[int, float] = {}
    newest = AuditQuery(limit=50, tool="add")
    async with (
        Kernel(store=f"sqlite:///{path}") as kernel,
        kernel.open(Agent("bench", tools=[add]), principal=Principal("bench")) as session,
    ):

        async def make(count: int) -> None:
            for number in range(count):
                await session.call(add, a=2, b=3)
                if not (number + 1) % PART:
                    await kernel.audit.flush()
            await kernel.audit.flush()

        record_count = 0
        for count in counts:
            rated = min(RATED, count - record_count)
            await make(count - record_count - rated)
            began = time.perf_counter()
            await make(rated)
            write_rates[count] = rated / (time.perf_counter() - began)
            took: list[float] = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                await kernel.audit.query(newest)
                took.append((time.perf_counter() - began) * 1e3)
            page[count] = statistics.median(took)
            began = time.perf_counter()
            await kernel.audit.verify()
            verified[count] = count / (time.perf_counter() - began)
            room[count] = sum(file.stat().st_size for file in path.parent.iterdir()) / count
            record_count = count
    return [
        Curve("Records", "records", "a second", {"calls, with their records": write_rates, "verified": verified}),
        Curve("The newest 50 records of a tool", "records", "ms", {"query": page}),
        Curve("Room of a record", "records", "bytes", {"file": room}),
    ]
