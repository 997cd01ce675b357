"""How long a process holds the lock of a SQLite file: `python -m lab.benchmarks.write_window [FOLDER]`.

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

from sqlalchemy import Connection, Engine, event

from capset.stores.sql.sqlite import SqliteStore
from capset_testing.store_suite.support import entry, intent

ROUNDS = 300


class TimedStore(SqliteStore):
    """A store that notes how long each of its write transactions held the lock."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.held: list[float] = []
        self._began_at = 0.0

    def make_engines(self) -> tuple[Engine, Engine]:
        """Return the engines, with the writer's timed."""
        writing, reading = super().make_engines()
        event.listen(writing, "begin", self._note_begin)
        event.listen(writing, "checkin", self._note_end)
        return writing, reading

    def _note_begin(self, _connection: Connection) -> None:
        self._began_at = time.perf_counter()

    def _note_end(self, _raw: object, _record: object) -> None:
        self.held.append(time.perf_counter() - self._began_at)


async def measure(folder: Path, tasks: int) -> str:
    """Return how long transactions held the lock, and which share of the time it was held."""
    store = TimedStore(str(folder / f"{tasks}.db"))
    await store.open()

    async def write(task: int) -> None:
        for number in range(ROUNDS):
            await store.audit.commit(intent(f"{task}-{number}"))
            await store.audit.commit(entry(f"{task}-{number}"))

    store.held.clear()
    start = time.perf_counter()
    await asyncio.gather(*(write(task) for task in range(tasks)))
    share = sum(store.held) / (time.perf_counter() - start)
    await store.close()
    lock_times = store.held
    late = quantiles(lock_times, n=100)[98]
    return (
        f"{tasks:>3} at once: {len(lock_times)} transactions, {1000 * median(lock_times):.2f} ms in the median, "
        f"{1000 * late:.2f} ms for 99 of 100, {100 * share:.0f} % of the time"
    )


def main() -> None:
    """Measure in a folder, by default a temporary one."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        for tasks in (1, 64):
            print(asyncio.run(measure(Path(folder), tasks)))


if __name__ == "__main__":
    main()
