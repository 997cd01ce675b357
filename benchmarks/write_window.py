"""How long a process holds the lock of a SQLite file: `python -m benchmarks.write_window [FOLDER]`.

A process that is frozen within this time keeps all others from writing. It commits intents one at a time, and 64 at
once.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from sqlalchemy import event

from capset.stores.sql.sqlite import SqliteStore
from capset.testing.store_suite.support import entry, intent

ROUNDS = 300


async def measure(folder: Path, tasks: int) -> str:
    """Return how long transactions held the lock, and which share of the time it was held."""
    store = SqliteStore(str(folder / f"{tasks}.db"))
    await store.open()
    began, held = 0.0, list[float]()

    def begun(_connection: Any) -> None:
        nonlocal began
        began = time.perf_counter()

    def ended(*_: Any) -> None:
        held.append(time.perf_counter() - began)

    async def write(task: int) -> None:
        for number in range(ROUNDS):
            await store.audit.commit(intent(f"{task}-{number}"))
            await store.audit.commit(entry(f"{task}-{number}"))

    assert store._engines is not None
    event.listen(store._engines[0], "begin", begun)
    event.listen(store._engines[0], "checkin", ended)
    start = time.perf_counter()
    await asyncio.gather(*(write(task) for task in range(tasks)))
    share = sum(held) / (time.perf_counter() - start)
    await store.close()
    late = quantiles(held, n=100)[98]
    return (
        f"{tasks:>3} at once: {len(held)} transactions, {1000 * median(held):.2f} ms in the median, "
        f"{1000 * late:.2f} ms for 99 of 100, {100 * share:.0f} % of the time"
    )


def main() -> None:
    """Measure in a folder, by default a temporary one."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        for tasks in (1, 64):
            print(asyncio.run(measure(Path(folder), tasks)))


if __name__ == "__main__":
    main()
