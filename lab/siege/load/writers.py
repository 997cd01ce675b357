"""Writers of one chain: processes that make durable calls, and how long the lock of their turns is held."""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from capset import Agent, Kernel, Principal
from lab.siege.battle import database
from lab.siege.tools import keep

AT_ONCE = 64
"""Calls under way at once in each process; each is two records, its intent and its outcome."""
WARM_CALLS = 512
READY_SECONDS = 120.0
"""How long all wait for the last that starts."""
LOOK_SECONDS = 0.01
_LOCKS = """
SELECT count(*) FILTER (WHERE granted), count(*) FILTER (WHERE NOT granted) FROM pg_locks
WHERE locktype = 'relation' AND mode = 'ExclusiveLock' AND relation = to_regclass('alembic_version')
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many processes write, and how often and for how many seconds each number of them is measured."""

    writers: tuple[int, ...] = (1, 2, 4)
    rounds: int = 5
    seconds: float = 4.0


def measure(sizes: Sizes) -> dict[str, Any]:
    """Return the records a second of one chain, and of a chain each, which share no lock: an upper bound."""
    with database("postgres") as (_, url):
        maximum = max(sizes.writers)
        with psycopg.connect(url, autocommit=True) as connection:
            for number in range(maximum):
                connection.execute(f"CREATE DATABASE chain{number}".encode())
        urls = [url.replace("/postgres?", f"/chain{number}?") for number in range(maximum)]
        plans = [(count, chains) for count in sizes.writers for chains in sorted({1, count})]
        rounds = [{plan: _measure(urls, *plan, sizes.seconds) for plan in plans} for _ in range(sizes.rounds)]
        asyncio.run(_verify(urls))
    return {"rows": [_row(*plan, [measured[plan] for measured in rounds]) for plan in plans], "verified": True}


def misses(measurement: dict[str, Any]) -> list[str]:
    """Return whether several writers of one chain store fewer records than one."""
    rates = {row["writers"]: row["records"] for row in measurement["rows"] if row["chains"] == 1}
    return [
        f"{writers} writers of one chain stored {rate} records a second, and one {rates[1]}"
        for writers, rate in rates.items()
        if rate < rates[1]
    ]


@dataclass
class _Locks:
    """How often the lock was seen, how often it was held, and how often others waited for it."""

    looks: int = 0
    held: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class _Measured:
    records: int
    seconds: float
    locks: _Locks = field(default_factory=_Locks)


def _measure(urls: Sequence[str], writers: int, chains: int, seconds: float) -> _Measured:
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(writers, context) as pool:
        ready = manager.Barrier(writers + 1, timeout=READY_SECONDS)  # all begin at once, however long each start takes
        working = [pool.submit(_write, urls[number % chains], seconds, ready) for number in range(writers)]
        ready.wait()
        with _watched(urls[0], seconds) as locks:
            calls = sum(future.result() for future in working)
    return _Measured(2 * calls, seconds, locks)


def _write(url: str, seconds: float, ready: threading.Barrier) -> int:
    return asyncio.run(_calls(url, seconds, ready))


async def _calls(url: str, seconds: float, ready: threading.Barrier) -> int:
    """Make calls until the time is over, and return how many were answered within it."""
    count = 0
    async with (
        Kernel(store=url) as kernel,
        kernel.open(Agent("writer", tools=[keep]), principal=Principal("writer")) as session,
    ):
        until = 0.0

        async def work() -> None:
            nonlocal count
            while time.monotonic() < until:
                await session.call(keep, text="a record")
                count += time.monotonic() < until

        for _ in range(WARM_CALLS // AT_ONCE):
            await asyncio.gather(*(session.call(keep, text="warm") for _ in range(AT_ONCE)))
        await asyncio.to_thread(ready.wait)
        until = time.monotonic() + seconds
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return count


@contextmanager
def _watched(url: str, seconds: float) -> Generator[_Locks]:
    """Look at the lock of a database's writers for so many seconds."""
    locks = _Locks()

    def look() -> None:
        until = time.monotonic() + seconds
        with psycopg.connect(url, autocommit=True) as connection:
            while time.monotonic() < until:
                row = connection.execute(_LOCKS).fetchone() or (0, 0)
                locks.looks += 1
                locks.held += row[0] > 0
                locks.waiting += row[1] > 0
                time.sleep(LOOK_SECONDS)

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield locks
    finally:
        watching.join()


async def _verify(urls: Sequence[str]) -> None:
    for url in urls:
        async with Kernel(store=url) as kernel:
            report = await kernel.audit.verify()
            if not report.ok:
                raise RuntimeError(f"the chain of {url} does not verify: {report}")


def _row(writers: int, chains: int, rounds: Sequence[_Measured]) -> dict[str, Any]:
    looks = sum(measured.locks.looks for measured in rounds) or 1
    return {
        "writers": writers,
        "chains": chains,
        "records": round(statistics.median(measured.records / measured.seconds for measured in rounds)),
        "rates": [round(measured.records / measured.seconds) for measured in rounds],
        "lock_held": round(sum(measured.locks.held for measured in rounds) / looks, 2),
        "others_wait": round(sum(measured.locks.waiting for measured in rounds) / looks, 2),
    }
