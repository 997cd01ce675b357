"""Workers killed with SIGKILL at random moments: runs end on others, and no step comes twice (spec 10, D12, D13)."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from capset.stores.base import RunQuery, RunRow, ScheduleRow
from capset_server.service import Service
from tests.helpers.server.runs.working import (
    PAST,
    Notes,
    await_start,
    ended,
    queued,
    scheduled,
    service_on,
    working,
)
from tests.waiting import until

KILLS = int(os.environ.get("CAPSET_WORKER_KILLS", "3"))
"""How many workers are killed on each engine."""
SEED = int(os.environ.get("CAPSET_SEED", "1"))
WORKERS = 3
TURNS = 4
"""How many turns, and as many calls, there are for each kill."""
SECONDS = 30
"""How soon after a kill every run that was queued before has ended (spec 10, D12)."""
STEPS = ("put one", "begin two", "put three")
"""The deeds that each turn does once."""


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.timeout(120 + 40 * KILLS)
@pytest.mark.spec("D12", "D13")
async def test_runs_end_within_half_a_minute_and_do_each_step_once(url: str, tmp_path: Path) -> None:
    moment = random.Random(f"{SEED} {url.partition(':')[0]}")
    notes, slowest, all_runs = Notes(tmp_path / "notes"), 0.0, dict[str, RunRow]()

    async with service_on(url, notes.path) as service:
        with ExitStack() as processes:
            workers = [processes.enter_context(working(url, notes.path, LINGER="0.5")) for _ in range(WORKERS)]
            await_start(*workers)
            for number in range(KILLS):
                runs = [await queued(service) for _ in range(TURNS)]
                for place in range(TURNS):
                    name = f"call-{number}-{place}"
                    all_runs[name] = await queued(service, call=("linger", {"text": name, "seconds": 0.3}))
                await asyncio.sleep(moment.uniform(0, 1.5))
                place = moment.randrange(WORKERS)
                workers[place].kill()
                killed = time.monotonic()
                workers[place] = processes.enter_context(working(url, notes.path, LINGER="0.5"))
                for name, run in all_runs.items():
                    all_runs[name] = await ended(service, run)
                turns = [await ended(service, run) for run in runs]
                slowest = max(slowest, time.monotonic() - killed)
                assert [turn.state for turn in turns] == ["succeeded"] * TURNS, [turn.outcome for turn in turns]
                await_start(workers[place])
        verified = await service.kernel.audit.verify()
    deeds = Counter(notes.deeds)
    interrupted = _check(deeds, all_runs)
    print(f"{KILLS} kills, {interrupted} calls interrupted, all over within {slowest:.1f} s", flush=True)
    assert verified.ok, verified.problem
    assert slowest < SECONDS


def _check(deeds: Counter[str], calls: dict[str, RunRow]) -> int:
    """Compare the runs with what was done, and return how many calls were interrupted in the middle."""
    # A turn that was cut off within "linger" learns that its outcome is unknown, and goes on.
    assert {step: deeds[step] for step in STEPS} == dict.fromkeys(STEPS, KILLS * TURNS)
    interrupted = 0
    for name, run in calls.items():
        done = deeds[f"begin {name}"], deeds[f"end {name}"]
        if run.state == "succeeded":
            assert done == (1, 1), name
        else:
            assert ("interrupted" in str(run.outcome), done) in ((True, (1, 0)), (True, (1, 1)), (True, (0, 0))), name
            interrupted += 1
    return interrupted


@pytest.mark.realtime
@pytest.mark.nightly
@pytest.mark.timeout(180)
@pytest.mark.spec("D17", "D18")
async def test_a_schedule_queues_one_run_for_each_time_over_three_workers_that_are_killed(
    url: str, tmp_path: Path
) -> None:
    notes, times = tmp_path / "notes", 3
    async with service_on(url, notes) as service:
        store = service.kernel.store
        schedule = await scheduled(service)
        for _ in range(times):
            with ExitStack() as processes:
                await_start(*[processes.enter_context(working(url, notes, LINGER="0.1")) for _ in range(WORKERS)])
                run = await _next_run(service, schedule)
                assert (await ended(service, run)).state == "succeeded"
            row = await store.schedules.get(schedule.id)
            assert row is not None
            schedule = replace(row, next_at=PAST)
            assert await store.schedules.change(row, schedule)
        runs = (await store.runs.list(RunQuery("acme", "ada"))).items
    assert len(runs) == times


async def _next_run(service: Service, schedule: ScheduleRow) -> RunRow:
    """Wait until a schedule has queued another run, and return it."""
    store = service.kernel.store

    async def newer() -> list[RunRow]:
        row = await store.schedules.get(schedule.id)
        assert row is not None
        run = None if row.last_run in (None, schedule.last_run) else await store.runs.get(str(row.last_run))
        return [] if run is None else [run]

    (run,) = await until(newer, "the schedule to queue a run")
    return run
