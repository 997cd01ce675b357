"""Checks of schedules."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from capset.errors import StateError, StoreError
from capset.stores.base import ScheduleQuery, ScheduleRow
from capset.stores.base.runs import RunsFull
from capset.stores.base.schedules import SchedulesFull
from capset_testing.store_suite.run_checks import run_row
from capset_testing.store_suite.support import LATER, NOW, SOON, Make, expect, expect_error, with_sessions


def schedule_row(id: str, **changes: Any) -> ScheduleRow:
    """Return the row of a schedule that creates a new session for each run."""
    row = ScheduleRow(
        id=id,
        org="acme",
        principal="ada",
        principal_kind="user",
        cron="0 9 * * 1-5",
        timezone="Europe/Berlin",
        kind="turn",
        queue="default",
        agent="scribe",
        session=None,
        caller='{"kind":"anyone"}',
        content='"Grüße"',
        created_at=NOW,
        next_at=SOON,
    )
    return replace(row, **changes)


async def a_schedule_is_stored_and_found(make: Make) -> None:
    """Check lookup by id, pages of a principal's schedules, newest first, and the limit of an org."""
    async with with_sessions(make, "a") as store:
        rows = [schedule_row("s-1"), schedule_row("s-2", session="a", kind="call"), schedule_row("s-3", next_at=None)]
        for row in (*rows, schedule_row("s-4", principal="bob"), schedule_row("s-5", org=None)):
            await store.schedules.add(row)
        expect(await store.schedules.get("s-2"), rows[1], "a schedule")
        expect(await store.schedules.get("s-5"), schedule_row("s-5", org=None), "a schedule without an org")
        expect(await store.schedules.get("s-9"), None, "an unknown schedule")
        page = await store.schedules.list(ScheduleQuery("acme", "ada", limit=2))
        rest = await store.schedules.list(ScheduleQuery("acme", "ada", limit=2, before=page.next))
        expect([schedule.id for schedule in (*page.items, *rest.items)], ["s-3", "s-2", "s-1"], "two pages")
        expect(rest.next, None, "the cursor after the last page")
        await expect_error(StoreError, store.schedules.add(rows[0]), "a second schedule of that id")
        await expect_error(
            SchedulesFull, store.schedules.add(schedule_row("s-6"), max_schedules=4), "one schedule too many"
        )
        await store.schedules.add(schedule_row("s-6"), max_schedules=5)
        expect(await store.schedules.remove("s-6"), True, "whether a schedule was removed")
        expect(await store.schedules.remove("s-6"), False, "whether it was removed again")


async def a_schedule_belongs_to_its_session(make: Make) -> None:
    """Check that its session, if it has one, must exist, and that a schedule is deleted with its session."""
    async with with_sessions(make, "a") as store:
        missing = store.schedules.add(schedule_row("s-1", session="b"))
        await expect_error(StateError, missing, "a schedule of a missing session")
        await store.schedules.add(schedule_row("s-1", session="a"))
        await store.schedules.add(schedule_row("s-2"))
        await store.sessions.delete("a")
        expect(await store.schedules.get("s-1"), None, "the schedule of a deleted session")
        expect((await store.schedules.get("s-2")) is not None, True, "whether another stays")


async def schedules_are_due_by_their_queue(make: Make) -> None:
    """Check that the longest due come first, those with a problem last, and paused ones never."""
    async with with_sessions(make) as store:
        rows = (
            schedule_row("s-1"),
            schedule_row("s-2", next_at=NOW),
            schedule_row("s-3", queue="mail"),
            schedule_row("s-4", next_at=LATER),
            schedule_row("s-5", next_at=None),
            schedule_row("s-0", next_at=NOW, problem="its caller has no key"),
        )
        for row in rows:
            await store.schedules.add(row)

        async def due(queue: str, limit: int = 100) -> list[str]:
            return [schedule.id for schedule in await store.schedules.due(queue, now=SOON, limit=limit)]

        expect(await due("default"), ["s-2", "s-1", "s-0"], "the due schedules of a queue")
        expect(await due("default", limit=1), ["s-2"], "the first")
        expect(await due("mail"), ["s-3"], "the due schedules of another queue")


async def a_due_time_queues_one_run(make: Make) -> None:
    """Check that one of several concurrent changes queues a run; change and run are stored together or not at all."""
    async with with_sessions(make, "a") as store:
        row = schedule_row("s-1")
        await store.schedules.add(row)
        full = store.schedules.change(row, replace(row, next_at=LATER), run=run_row("r-0"), max_unfinished=0)
        await expect_error(RunsFull, full, "a run too many")
        expect(await store.schedules.get("s-1"), row, "the schedule of a run that was refused")
        changes = [
            store.schedules.change(row, replace(row, next_at=LATER, last_run=f"r-{n}"), run=run_row(f"r-{n}"))
            for n in range(3)
        ]
        changed = await asyncio.gather(*changes)
        expect(sorted(changed), [False, False, True], "which changes queued a run")
        run_id = f"r-{changed.index(True)}"
        numbers = [n for n in range(3) if await store.runs.get(f"r-{n}") is not None]
        expect([f"r-{n}" for n in numbers], [run_id], "the runs that are queued")
        expect(await store.schedules.get("s-1"), replace(row, next_at=LATER, last_run=run_id), "the schedule")
        paused = replace(row, next_at=None)
        expect(await store.schedules.change(replace(row, next_at=LATER), paused), True, "whether it is paused")
        expect(await store.schedules.change(paused, replace(paused, next_at=NOW)), True, "whether it is resumed")
