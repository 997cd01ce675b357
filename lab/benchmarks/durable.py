"""Durable intents and outcomes at 64 calls at once, against raw SQLite inserts in batches of 64 (spec 4, G34)."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

from capset import Agent, Kernel, Principal, tool
from capset.definitions.calls.records import COLUMNS
from lab.benchmarks.row import Row
from lab.benchmarks.turns import together

TARGET = 0.25
"""Of the rows/s that raw inserts make (G34)."""
AT_ONCE = 64
_NAMES = ", ".join(COLUMNS)


@tool(effect="write")
async def add(a: int, b: int) -> int:
    """Add two numbers, as if that changed something: an intent is durable before, an outcome after."""
    return a + b


def measure(*, quick: bool) -> list[Row]:
    """Return the ratio of the rows/s of governed calls to those of raw inserts of the same rows, in the same rounds."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder), rounds=3 if quick else 7, calls=10 if quick else 50))


async def _measure(folder: Path, *, rounds: int, calls: int) -> list[Row]:
    path = folder / "governed.db"
    governed = raw = 0.0
    async with (
        Kernel(store=f"sqlite:///{path}") as kernel,
        kernel.open(Agent("bench", tools=[add]), principal=Principal("bench")) as session,
    ):
        await together(lambda: session.call(add, a=2, b=3), AT_ONCE, calls=1)
        rows = _rows(path)
        for round_ in range(rounds):
            began = time.perf_counter()
            await together(lambda: session.call(add, a=2, b=3), AT_ONCE, calls)
            governed = max(governed, 2 * AT_ONCE * calls / (time.perf_counter() - began))
            raw = max(raw, _inserted(folder / f"raw-{round_}.db", rows, batches=2 * calls))
    peers = {"governed call": f"{governed:,.0f} rows/s", "raw inserts": f"{raw:,.0f} rows/s"}
    unit = f"of the rows/s of raw inserts in batches of {AT_ONCE}"
    name = f"durable intent and outcome, {AT_ONCE} at once"
    return [Row(name, round(governed / raw, 2), unit, TARGET, "at least", peers)]


def _rows(path: Path) -> list[tuple[object, ...]]:
    """Return real records, of one batch."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute(f"SELECT {_NAMES} FROM records ORDER BY seq LIMIT {AT_ONCE}").fetchall()


def _inserted(path: Path, rows: list[tuple[object, ...]], *, batches: int) -> float:
    """Return the rows/s of inserting the same columns with nothing but SQLite, as durable, and with no index."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute(f"CREATE TABLE records ({_NAMES})")
        insert = f"INSERT INTO records VALUES ({', '.join('?' * len(COLUMNS))})"
        began = time.perf_counter()
        for _ in range(batches):
            database.execute("BEGIN IMMEDIATE")
            database.executemany(insert, rows)
            database.execute("COMMIT")
        return batches * len(rows) / (time.perf_counter() - began)
