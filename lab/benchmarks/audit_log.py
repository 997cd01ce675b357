"""The record: verifying its chain beside Python's own means, and its newest page among few and among many records."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from capset import Agent, Kernel, Principal, tool
from capset.stores.base import AuditQuery
from lab.benchmarks.row import Row

VERIFIED, FLAT = 0.5, 1.5
"""Of the records a second of the same hashes by ``json`` and ``hashlib`` alone; and times the page among the first."""
FEW, MANY, MANY_QUICKLY = 1_000, 40_000, 4_000


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def measure(*, quick: bool) -> list[Row]:
    """Return both rows."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder, "bench.db"), MANY_QUICKLY if quick else MANY, 1 if quick else 5))


async def _measure(path: Path, many: int, rounds: int) -> list[Row]:
    newest = AuditQuery(limit=50, tool="add")
    async with (
        Kernel(store=f"sqlite:///{path}") as kernel,
        kernel.open(Agent("bench", tools=[add]), principal=Principal("bench")) as session,
    ):

        async def make(count: int) -> None:
            for number in range(count):
                await session.call(add, a=2, b=3)
                if not number % 1_000:
                    await kernel.audit.flush()
            await kernel.audit.flush()

        async def page() -> None:
            for _ in range(50):
                await kernel.audit.query(newest)

        await make(FEW)
        early = await _best(page, 10 * rounds)
        await make(many - FEW)
        late = await _best(page, 10 * rounds)
        verified = many / await _best(kernel.audit.verify, rounds)
    plainly = many / min(_hashed(path) for _ in range(rounds))
    return [
        Row(
            f"verification of {many:,} records",
            round(verified / plainly, 2),
            "of the records/s of json and hashlib alone",
            VERIFIED,
            "at least",
            {"verify": f"{verified:,.0f}/s", "json and hashlib": f"{plainly:,.0f}/s"},
        ),
        Row(
            f"the newest 50 records of a tool, among {many:,}",
            round(late / early, 2),
            f"times among {FEW:,}",
            FLAT,
            "at most",
            {f"among {FEW:,}": f"{early * 20:.2f} ms", f"among {many:,}": f"{late * 20:.2f} ms"},
        ),
    ]


async def _best(job: Callable[[], Awaitable[object]], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        await job()
        best = min(best, time.perf_counter() - began)
    return best


def _hashed(path: Path) -> float:
    """Return the seconds that it takes to read each record and hash it, in the shortest way that Python has."""
    with closing(sqlite3.connect(path)) as database:
        began = time.perf_counter()
        cursor = database.execute("SELECT * FROM records ORDER BY seq")
        names = [column[0] for column in cursor.description]
        for row in cursor:
            columns = {name: value for name, value in zip(names, row, strict=True) if value is not None}
            stored_hash = columns.pop("hash")
            text = json.dumps(columns | {"kind": "record"}, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
            if hashlib.sha256(text.encode()).hexdigest() != stored_hash:
                raise RuntimeError(f"record {columns['seq']} has another hash")
        return time.perf_counter() - began
