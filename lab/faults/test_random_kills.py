"""SIGKILL at random moments under load, by seeds (spec 4, G19, G21–G23). ``make lab-faults`` does it 200 times."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from capset.ext import CheckpointKey
from capset.fingerprint.checkpoints import Checkpoint, checkpoint_of
from lab.faults import load
from tests.helpers.stores.sql.support import opened_at, run_at
from tests.waiting import wait_until

KILLS = int(os.environ.get("CAPSET_KILLS", "20"))
"""How many processes are killed on both engines together."""
SEED = int(os.environ.get("CAPSET_SEED", "1"))
ROUND = 5
"""How many of them one database sees, one after the other."""
UNDER_LOAD = 0.8
"""How many of them are killed under load; the others may be opening the database still."""
MOST_CALLS = 60
"""How many calls are acknowledged at most before a process under load is killed."""


@dataclass
class Left:
    """What the processes so far have left in their files, and the log."""

    url: str
    folder: Path
    key: CheckpointKey = field(default_factory=CheckpointKey.generate)
    interrupted: int = 0

    def lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def kept(self) -> list[Checkpoint]:
        return [checkpoint_of(json.loads(line)) for line in self.lines(load.KEPT)]

    def open_intents(self) -> set[str]:
        if not run_at(self.url, "SELECT 1 FROM records LIMIT 1"):
            return set()
        rows = run_at(self.url, "SELECT id, phase FROM records")
        return {call_id for call_id, phase in rows if phase == "intent"} - {
            call_id for call_id, phase in rows if phase == "outcome"
        }

    def kill_one(self, seed: int, *, is_first: bool) -> None:
        """Start a process from a warm one, and kill it at a moment that the seed says; the first one under load."""
        warm = multiprocessing.get_context("forkserver")
        warm.set_forkserver_preload(
            ["lab.faults.load", "capset.stores.sql.schema.revisions", "cryptography.hazmat.bindings"]
        )
        process = warm.Process(target=load.run, args=(self.url, self.folder, seed, self.key.pem()))
        moment, acknowledged = random.Random(seed), len(self.lines(load.TOLD))
        process.start()
        if moment.random() < UNDER_LOAD or is_first:
            enough = acknowledged + moment.randint(1, MOST_CALLS)

            def is_enough() -> bool:
                assert process.is_alive(), "it ended by itself"
                return len(self.lines(load.TOLD)) >= enough

            wait_until(is_enough, "the calls to be acknowledged")
            time.sleep(moment.uniform(0, 0.02))
        else:
            time.sleep(moment.uniform(0, 0.3))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL

    async def check(self) -> None:
        """Open the log, as the next process does, and compare it with what is known from outside."""
        interrupted = self.open_intents()
        async with opened_at(self.url) as store:
            intents: dict[str, int] = {}
            outcomes: dict[str, str] = {}
            after = 0
            while page := await store.audit.read(after=after):
                after = page[-1].seq
                for record in page:
                    if record.phase == "intent":
                        intents[record.id] = json.loads(record.arguments)["number"]
                    else:
                        assert record.id not in outcomes
                        outcomes[record.id] = str(record.outcome)
            verified = await store.audit.verify([self.key.public] if self.kept() else [], self.kept())
        assert verified.ok, verified.problem
        effects = {int(line) for line in self.lines(load.EFFECTS)}
        assert effects <= set(intents.values()), "an effect without its intent"
        assert intents.keys() <= outcomes.keys(), "an intent without an outcome"
        assert {call_id for call_id in interrupted if outcomes[call_id] != "interrupted"} == set()
        self.interrupted += len(interrupted)
        for record, number in (line.split() for line in self.lines(load.TOLD)):
            assert outcomes.get(record) == "succeeded", (record, number)


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.timeout(60 + 10 * KILLS)
@pytest.mark.spec("G19", "G21", "G22", "G23")
@pytest.mark.parametrize("first", range(0, (KILLS + 1) // 2, ROUND))
async def test_whatever_the_moment_nothing_is_lost(first: int, url: str, tmp_path: Path) -> None:
    remains = Left(url, tmp_path)
    async with opened_at(url):
        pass  # the tables are there, so that anybody can look
    for number in range(first, min(first + ROUND, (KILLS + 1) // 2)):
        seed = SEED + 2 * number + url.startswith("postgres")
        print(f"seed {seed}", flush=True)
        remains.kill_one(seed, is_first=number == first)
        await remains.check()
    done, acknowledged = len(remains.lines(load.EFFECTS)), len(remains.lines(load.TOLD))
    print(f"{done} effects, {acknowledged} acknowledged, {remains.interrupted} interrupted", flush=True)
    assert (done > 0, acknowledged > 0) == (True, True)
