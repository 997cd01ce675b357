"""A session's files of 1 kB, written and read, beside the same rows in SQLite alone."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from itertools import count
from pathlib import Path

from capset import Agent, Kernel, Principal
from lab.benchmarks.row import Row
from lab.benchmarks.turns import Job, in_turns

WRITTEN, READ = 10, 120
"""Times a raw row, so that they do not grow: a write checks versions and quotas, a read crosses to a thread."""
CONTENT = b"x" * 1_024


def measure(*, quick: bool) -> list[Row]:
    """Return how much longer a session's file takes than a raw row, to write and to read."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder), rounds=1 if quick else 7))


async def _measure(folder: Path, *, rounds: int) -> list[Row]:
    with closing(sqlite3.connect(folder / "raw.db", isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("CREATE TABLE files (session TEXT, path TEXT, content BLOB, PRIMARY KEY (session, path))")
        numbers = count().__next__

        async def put() -> None:
            raw.execute("INSERT INTO files VALUES ('one', ?, ?)", (f"/{numbers() % 500}-{numbers()}", CONTENT))

        async def get() -> None:
            raw.execute("SELECT content FROM files WHERE session = 'one' AND path = '/same'").fetchone()

        raw.execute("INSERT INTO files VALUES ('one', '/same', ?)", (CONTENT,))
        async with (
            Kernel(store=f"sqlite:///{folder / 'bench.db'}") as kernel,
            kernel.open(Agent("bench"), principal=Principal("bench")) as session,
        ):
            files = session.files
            await files.write("/same", CONTENT)
            jobs: dict[str, Job] = {
                "write": lambda: files.write(f"/{numbers() % 100}", CONTENT),
                "raw insert": put,
                "read": lambda: files.read("/same"),
                "raw select": get,
            }
            times = await in_turns(jobs, rounds=rounds)
    peers = {name: f"{microseconds:.1f} µs" for name, microseconds in times.items()}
    return [_row(times, peers, "write", "raw insert", WRITTEN), _row(times, peers, "read", "raw select", READ)]


def _row(times: dict[str, float], peers: dict[str, str], operation: str, raw: str, target: float) -> Row:
    return Row(
        f"a file of 1 kB, {operation}",
        round(times[operation] / times[raw], 2),
        f"times a {raw}",
        target,
        "at most",
        peers,
    )
