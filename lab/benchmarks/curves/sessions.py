"""Sessions in an SQLite file: making one, calling in one that was found again, and the newest page, among many."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from pathlib import Path
from random import Random

from capset import Agent, Kernel, Principal, tool
from capset.stores.base import SessionQuery, SessionRow
from lab.benchmarks.curves.curve import Curve

AT_ONCE, ROUNDS = 500, 60
"""Sessions that are stored at once, to fill the file; and how often each thing is measured."""
ADA = Principal("ada")


@tool(effect="read")
async def look(a: int) -> int:
    """Look."""
    return a


AGENT = Agent("bench", tools=[look])


def measure(counts: Sequence[int]) -> list[Curve]:
    """Return the milliseconds of each at each number of stored sessions, a hundredth of which are Ada's."""
    with tempfile.TemporaryDirectory() as folder:
        return [asyncio.run(_measure(Path(folder), counts))]


async def _measure(folder: Path, counts: Sequence[int]) -> Curve:
    lines: dict[str, dict[int, float]] = {"make one": {}, "find one, and call in it": {}, "Ada's newest 50": {}}
    random, ada_ids, stored = Random(28), list[str](), 0
    async with Kernel(store=f"sqlite:///{folder / 'bench.db'}") as kernel:
        # Each is another principal's, but for Ada's.
        others = (Principal(f"p{number}") if number % 100 else ADA for number in range(max(counts)))
        rows = (kernel.new_session(AGENT, principal) for principal in others)

        async def make() -> None:
            ada_ids.append(await _store(kernel, kernel.new_session(AGENT, ADA)))

        async def call() -> None:
            async with kernel.open(AGENT, principal=ADA, session_id=random.choice(ada_ids)) as session:
                await session.call(look, a=1)

        async def page() -> None:
            await kernel.store.sessions.list(SessionQuery(None, principal="ada"))

        for count in counts:
            while stored < count and (some := list(islice(rows, min(AT_ONCE, count - stored)))):
                await asyncio.gather(*(_store(kernel, row) for row in some))
                ada_ids += [row.id for row in some if row.principal == "ada"]
                stored += len(some)
            for line, job in zip(lines.values(), (make, call, page), strict=True):
                line[count] = await _milliseconds(job)
    return Curve("Sessions in a file", "stored sessions", "ms", lines)


async def _store(kernel: Kernel, row: SessionRow) -> str:
    await kernel.store.sessions.create(row)
    return row.id


async def _milliseconds(job: Callable[[], Awaitable[object]]) -> float:
    took: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await job()
        took.append((time.perf_counter() - began) * 1e3)
    return statistics.median(took)
