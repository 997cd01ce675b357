"""Two servers' worth of load on one database, of which one is killed or frozen at random moments (spec 5, P38).

``make lab-faults`` does it with 200 kills and 50 freezes.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from lab.faults import load
from lab.faults.test_random_kills import Left
from tests.helpers.stores.sql.support import opened_at
from tests.waiting import wait_until

KILLS = int(os.environ.get("CAPSET_PAIR_KILLS", "4"))
"""How many processes are killed beside another, on both engines together."""
FREEZES = int(os.environ.get("CAPSET_FREEZES", "4"))
"""How many are frozen beside another, on both engines together."""
SEED = int(os.environ.get("CAPSET_SEED", "1"))
FROZEN_SECONDS = 5.0
"""When the other writes again at the latest, on PostgreSQL."""
WARM = multiprocessing.get_context("forkserver")


class Pair:
    """Processes that make calls on one database; what they do is noted in one folder."""

    def __init__(self, remains: Left) -> None:
        self._left = remains
        self._seeds = iter(range(1, 100_000))

    def start(self) -> BaseProcess:
        """Start a process."""
        process = WARM.Process(
            target=load.run, args=(self._left.url, self._left.folder, next(self._seeds), self._left.key.pem())
        )
        process.start()
        return process

    def told(self) -> int:
        return len(self._left.lines(load.TOLD))

    def wait_for(self, more: int) -> float:
        """Wait until so many more calls were acknowledged, and return how long that took."""
        began, enough = time.monotonic(), self.told() + more
        wait_until(lambda: self.told() >= enough, f"{more} more calls to be acknowledged")
        return time.monotonic() - began


def _seconds_to_write(pair: Pair) -> float:
    """Return how long it takes until calls are acknowledged that begin now, besides all that are under way."""
    time.sleep(0.1)
    return 0.1 + pair.wait_for(2 * load.WORKERS)


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.timeout(120 + 15 * (KILLS + FREEZES))
@pytest.mark.spec("P38", "G19", "G21")
async def test_beside_a_frozen_or_killed_process_nothing_is_lost_or_doubled(url: str, tmp_path: Path) -> None:
    is_postgres = url.startswith("postgres")
    moment = random.Random(SEED + is_postgres)
    remains = Left(url, tmp_path)
    async with opened_at(url):
        pass
    pair = Pair(remains)
    steady, other = pair.start(), pair.start()
    faults = ["kill"] * ((KILLS + 1) // 2) + ["freeze"] * ((FREEZES + 1) // 2)
    moment.shuffle(faults)
    waits: list[float] = []
    try:
        pair.wait_for(2 * load.WORKERS)
        for fault in faults:
            pair.wait_for(moment.randint(1, 60))
            time.sleep(moment.uniform(0, 0.02))
            assert other.pid is not None
            if fault == "kill":
                other.kill()
                other.join()
                other = pair.start()
            else:
                os.kill(other.pid, signal.SIGSTOP)
                if is_postgres:
                    waits.append(_seconds_to_write(pair))
                    assert waits[-1] < FROZEN_SECONDS
                else:
                    time.sleep(moment.uniform(0, 3))
                os.kill(other.pid, signal.SIGCONT)
            pair.wait_for(1)
        assert steady.is_alive(), "it ended by itself"
    finally:
        for process in (steady, other):
            process.kill()
            process.join()
    await remains.check()
    if waits:
        print(f"the longest of {len(waits)} waits: {max(waits):.2f} s", flush=True)
    print(f"{len(remains.lines(load.EFFECTS))} effects, {pair.told()} acknowledged, {remains.interrupted} interrupted")
