"""Schedules: when their runs are due, and that each time queues one run, by one of several workers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset.errors import InvalidArguments
from capset.stores.base import AuditQuery, RunQuery, ScheduleRow
from capset_server.auth.keys import create_key
from capset_server.runs import schedules
from capset_server.runs.schedules import next_time, pause_schedule, queue_due
from capset_server.service import Service
from tests.helpers.server.runs.working import ADA, PAST, scheduled, service_on


async def look(service: Service, row: ScheduleRow) -> ScheduleRow:
    """Return a schedule as it is now."""
    schedule = await service.kernel.store.schedules.get(row.id)
    assert schedule is not None
    return schedule


@pytest.mark.spec("D17")
@pytest.mark.parametrize(
    ("cron", "zone", "after", "due"),
    [
        ("*/15 * * * *", "UTC", "2026-11-27T00:07:00.000000Z", "2026-11-27T00:15:00.000000Z"),
        ("0 9 * * 1-5", "Europe/Berlin", "2026-11-27T12:00:00.000000Z", "2026-11-30T08:00:00.000000Z"),
        ("0 9 * * *", "Europe/Berlin", "2026-07-01T00:00:00.000000Z", "2026-07-01T07:00:00.000000Z"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T00:30:00.000000Z", "2026-03-29T01:00:00.000000Z"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00.000000Z", "2026-10-26T01:30:00.000000Z"),
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-29T00:30:00.000000Z", "2026-03-30T00:00:00.000000Z"),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00.000000Z", "2026-10-25T01:00:00.000000Z"),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00.000000Z", "2028-02-29T00:00:00.000000Z"),
    ],
)
def test_a_time_is_the_next_of_its_zone(cron: str, zone: str, after: str, due: str) -> None:
    assert next_time(cron, zone, after) == due


@pytest.mark.spec("D17")
@given(st.integers(0, 59), st.integers(0, 23), st.integers(0, 10_000_000))
def test_the_next_time_is_always_later(minute: int, hour: int, seconds: int) -> None:
    after = next_time("* * * * *", "UTC", f"2026-{1 + seconds % 12:02}-{1 + seconds % 28:02}T12:00:00.000000Z")
    due = next_time(f"{minute} {hour} * * *", "America/New_York", after)
    assert due > after
    assert next_time(f"{minute} {hour} * * *", "America/New_York", due) > due


@pytest.mark.spec("D17")
@pytest.mark.parametrize(
    ("cron", "zone", "field"),
    [
        ("often", "UTC", "cron"),
        ("* * * * * *", "UTC", "cron"),
        ("61 * * * *", "UTC", "cron"),
        ("0 0 31 2 *", "UTC", "cron"),
        ("@daily", "UTC", "cron"),
        ("0 9 * * *", "Nowhere/Here", "timezone"),
        ("0 9 * * *", "localtime", "timezone"),
        ("0 9 * * *", "Factory", "timezone"),
        ("0 9 * * *", "posixrules", "timezone"),
        ("0 9 * * *", "../../etc/passwd", "timezone"),
        ("0 9 * * *", "\x00", "timezone"),
    ],
)
def test_what_is_no_time_is_refused_by_its_field(cron: str, zone: str, field: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        next_time(cron, zone, PAST)
    assert [error.path for error in refused.value.fields] == [field]


@pytest.mark.realtime
@pytest.mark.spec("D17", "D18")
async def test_a_due_time_queues_one_run_however_many_look(url: str, tmp_path: Path) -> None:
    """Times that have passed have one run together; sessions of those that were late are deleted again."""
    async with service_on(url, tmp_path / "notes") as first_service, service_on(url, tmp_path / "notes") as two:
        row = await scheduled(first_service)
        other = await scheduled(first_service, queue="other")
        counts = await asyncio.gather(
            *[queue_due(service, ["default"]) for service in (first_service, two, first_service, two)]
        )
        assert sum(counts) == 1
        runs = (await first_service.kernel.store.runs.list(RunQuery("acme", "ada"))).items
        assert [(run.state, run.queue, run.content) for run in runs] == [("queued", "default", '"Go on."')]
        schedule = await look(first_service, row)
        assert (schedule.last_run, schedule.problem) == (runs[0].id, None)
        assert str(schedule.next_at) > first_service.kernel.now() > str(schedule.last_at) > PAST
        assert await queue_due(two, ["default"]) == 0, "not before the next time"
        assert (await look(first_service, other)).last_run is None, "another queue's workers see to it"
        assert len(await first_service.kernel.store.events.latest([runs[0].session])) == 1


@pytest.mark.spec("D18")
async def test_a_time_is_left_out_while_the_run_before_has_not_ended(url: str, tmp_path: Path) -> None:
    async with service_on(url, tmp_path / "notes") as service:
        store, row = service.kernel.store, await scheduled(service)
        assert await queue_due(service, ["default"]) == 1
        first = await look(service, row)
        assert await store.schedules.change(first, replace(first, next_at=PAST))
        assert await queue_due(service, ["default"]) == 0
        schedule = await look(service, row)
        assert schedule.problem == f"the run {first.last_run} has not ended"
        assert (schedule.last_run, str(schedule.next_at) > PAST) == (first.last_run, True)
        run = await store.runs.get(str(first.last_run))
        assert run is not None
        assert await store.runs.change(run, replace(run, state="succeeded", due_at=None))
        assert await store.schedules.change(schedule, replace(schedule, next_at=PAST))
        assert await queue_due(service, ["default"]) == 1
        assert (await look(service, row)).problem is None


@pytest.mark.spec("D18")
async def test_a_schedule_is_left_to_workers_that_know_its_caller(url: str, tmp_path: Path) -> None:
    """It was made without a key; one that was made with a key is seen to all the same."""
    async with service_on(url, tmp_path / "notes") as insecure, service_on(url, tmp_path / "notes") as other:
        unknown = await scheduled(insecure)
        secure = Service(other.kernel, other.registry)
        _, key = await create_key(other.kernel, "ada", ADA.principal, scopes=["capset:call"])
        keyed = await scheduled(insecure, by=await secure.callers.identify(f"Bearer {key}"))
        assert await queue_due(secure, ["default"]) == 1
        assert (await look(insecure, keyed)).last_run is not None
        schedule = await look(insecure, unknown)
        assert (schedule.next_at, "--insecure" in str(schedule.problem)) == (PAST, True)
        assert await queue_due(insecure, ["default"]) == 1
        assert (await look(insecure, unknown)).problem is None


@pytest.mark.spec("D17", "D18")
async def test_what_cannot_be_queued_says_why_and_is_tried_at_the_next_time(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with service_on(url, tmp_path / "notes") as service:
        gone = await scheduled(service, timezone="Europe/Berlin")
        full = await scheduled(service)
        stored = await look(service, gone)
        assert await service.kernel.store.schedules.change(stored, replace(stored, timezone="Nowhere/Here"))
        monkeypatch.setattr(schedules, "UNFINISHED_RUNS", 0)
        assert await queue_due(service, ["default"]) == 0
        schedule = await look(service, gone)
        assert (schedule.next_at, "timezone" in str(schedule.problem)) == (None, True)
        schedule = await look(service, full)
        assert (str(schedule.next_at) > PAST, "unfinished" in str(schedule.problem)) == (True, True)
        paused = await pause_schedule(service, ADA, full.id, is_paused=True)
        assert await pause_schedule(service, ADA, full.id, is_paused=True) == paused
        assert paused.next_at is None
        assert str((await pause_schedule(service, ADA, full.id, is_paused=False)).next_at) > service.kernel.now()
        acts = (await service.kernel.audit.query(AuditQuery(kind="act", org="acme"))).items
        assert [act.act for act in acts] == ["schedule.change"] * 2 + ["schedule.create"] * 2
