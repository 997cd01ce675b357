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
    found = await service.kernel.store.schedules.get(row.id)
    assert found is not None
    return found


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
    assert [one.path for one in refused.value.fields] == [field]


@pytest.mark.realtime
@pytest.mark.spec("D17", "D18")
async def test_a_due_time_queues_one_run_however_many_look(url: str, tmp_path: Path) -> None:
    """Times that have passed have one run together; sessions of those that were late are deleted again."""
    async with service_on(url, tmp_path / "notes") as one, service_on(url, tmp_path / "notes") as two:
        row = await scheduled(one)
        other = await scheduled(one, queue="other")
        told = await asyncio.gather(*[queue_due(service, ["default"]) for service in (one, two, one, two)])
        assert sum(told) == 1
        runs = (await one.kernel.store.runs.list(RunQuery("acme", "ada"))).items
        assert [(run.state, run.queue, run.content) for run in runs] == [("queued", "default", '"Go on."')]
        found = await look(one, row)
        assert (found.last_run, found.problem) == (runs[0].id, None)
        assert str(found.next_at) > one.kernel.now() > str(found.last_at) > PAST
        assert await queue_due(two, ["default"]) == 0, "not before the next time"
        assert (await look(one, other)).last_run is None, "another queue's workers see to it"
        assert len(await one.kernel.store.events.latest([runs[0].session])) == 1


@pytest.mark.spec("D18")
async def test_a_time_is_left_out_while_the_run_before_has_not_ended(url: str, tmp_path: Path) -> None:
    async with service_on(url, tmp_path / "notes") as service:
        store, row = service.kernel.store, await scheduled(service)
        assert await queue_due(service, ["default"]) == 1
        first = await look(service, row)
        assert await store.schedules.change(first, replace(first, next_at=PAST))
        assert await queue_due(service, ["default"]) == 0
        found = await look(service, row)
        assert found.problem == f"the run {first.last_run} has not ended"
        assert (found.last_run, str(found.next_at) > PAST) == (first.last_run, True)
        run = await store.runs.get(str(first.last_run))
        assert run is not None
        assert await store.runs.change(run, replace(run, state="succeeded", due_at=None))
        assert await store.schedules.change(found, replace(found, next_at=PAST))
        assert await queue_due(service, ["default"]) == 1
        assert (await look(service, row)).problem is None


@pytest.mark.spec("D18")
async def test_a_schedule_is_left_to_workers_that_know_its_caller(url: str, tmp_path: Path) -> None:
    """It was made without a key; one that was made with a key is seen to all the same."""
    async with service_on(url, tmp_path / "notes") as insecure, service_on(url, tmp_path / "notes") as other:
        unknown = await scheduled(insecure)
        secure = Service(other.kernel, other.registry)
        _, key = await create_key(other.kernel, "ada", ADA.principal, scopes=["capset:call"])
        known = await scheduled(insecure, by=await secure.callers.identify(f"Bearer {key}"))
        assert await queue_due(secure, ["default"]) == 1
        assert (await look(insecure, known)).last_run is not None
        found = await look(insecure, unknown)
        assert (found.next_at, "--insecure" in str(found.problem)) == (PAST, True)
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
        found = await look(service, gone)
        assert (found.next_at, "timezone" in str(found.problem)) == (None, True)
        found = await look(service, full)
        assert (str(found.next_at) > PAST, "unfinished" in str(found.problem)) == (True, True)
        paused = await pause_schedule(service, ADA, full.id, is_paused=True)
        assert await pause_schedule(service, ADA, full.id, is_paused=True) == paused
        assert paused.next_at is None
        assert str((await pause_schedule(service, ADA, full.id, is_paused=False)).next_at) > service.kernel.now()
        acts = (await service.kernel.audit.query(AuditQuery(kind="act", org="acme"))).items
        assert [act.act for act in acts] == ["schedule.change"] * 2 + ["schedule.create"] * 2
