"""Checks of runs and workers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from capset.definitions.governance.approvals import ApprovalStatus
from capset.errors import StateError, StoreError
from capset.stores.base import SUSPENDED, NewEvent, RunQuery, RunRow, Store, TurnRow, WorkerRow
from capset.stores.base.runs import RunsFull
from capset_testing.store_suite.support import (
    LATER,
    NOW,
    SOON,
    Make,
    approval_row,
    create_sessions,
    expect,
    expect_error,
    open_store,
    with_sessions,
)

_INTERRUPTED: Final = NewEvent("turn.failed", "{}")


def run_row(id: str, **changes: Any) -> RunRow:
    """Return the row of a run in the session ``a``."""
    row = RunRow(
        id=id,
        org="acme",
        principal="ada",
        principal_kind="user",
        kind="turn",
        queue="default",
        session="a",
        agent="scribe",
        caller='{"kind":"anyone"}',
        content='"Grüße"',
        correlation="c-1",
        created_at=NOW,
        due_at=NOW,
    )
    return replace(row, **changes)


async def _begin(store: Store, id: str, session: str = "a") -> str:
    turn = TurnRow(session, id, "here", LATER, "{}")
    started = NewEvent("turn.started", "{}")
    return (await store.events.begin(turn, started, now=SOON, interrupted=_INTERRUPTED, is_queued=True)).turn


async def _append_event(
    store: Store, id: str, event: str, data: str = "{}", *, then: TurnRow | None = None
) -> RunRow | None:
    turn = TurnRow("a", id, "here", LATER, "{}")
    await store.events.append(turn, [NewEvent(event, data)], now=LATER, then=then)
    return await store.runs.get(id)


async def a_run_is_stored_and_found(make: Make) -> None:
    """Check lookup by id, and pages of a principal's runs, newest first."""
    async with with_sessions(make, "a", "b") as store:
        rows = [run_row("r-1"), run_row("r-2", queue="mail", session="b"), run_row("r-3")]
        for row in (*rows, run_row("r-4", principal="bob"), run_row("r-5", org=None)):
            await store.runs.add(row)
        expect(await store.runs.get("r-1"), rows[0], "a run")
        expect(await store.runs.get("r-5"), run_row("r-5", org=None), "a run without an org")
        expect(await store.runs.get("r-9"), None, "an unknown run")
        await expect_error(StoreError, store.runs.add(rows[0]), "a second run of that id")

        async def list_ids(**filters: Any) -> list[str]:
            return [run.id for run in (await store.runs.list(RunQuery("acme", "ada", **filters))).items]

        expect(await list_ids(), ["r-3", "r-2", "r-1"], "the runs of a principal")
        expect(await list_ids(queue="mail"), ["r-2"], "the runs of a queue")
        expect(await list_ids(state="running"), [], "the running runs")
        expect(await list_ids(session="b", agent="scribe"), ["r-2"], "the runs in a session")
        expect(await list_ids(since="r-2"), ["r-3", "r-2"], "the runs from an id on")
        everyone = await store.runs.list(RunQuery("acme", agent="scribe"))
        expect([run.id for run in everyone.items], ["r-4", "r-3", "r-2", "r-1"], "the runs of an org")
        page = await store.runs.list(RunQuery("acme", "ada", limit=2))
        rest = await store.runs.list(RunQuery("acme", "ada", limit=2, before=page.next))
        expect([run.id for run in (*page.items, *rest.items)], ["r-3", "r-2", "r-1"], "two pages")
        expect(rest.next, None, "the cursor after the last page")
        await store.runs.add(run_row("r-6", on_behalf_of="user:eve"))
        expect(await list_ids(since="r-3"), ["r-6", "r-3"], "the runs of a principal, also on behalf of others")
        expect(await list_ids(principal_kind="user", since="r-3"), ["r-3"], "those in which it acts for itself")


async def a_turn_that_was_not_queued_has_a_run(make: Make) -> None:
    """Check that its run is stored with its first event, is never due, and gets the state and usage of the turn."""
    async with with_sessions(make, "a") as store:
        direct = run_row("r-1", queue=None, due_at=None, state="running", content="null", caller="null")
        turn = TurnRow("a", "r-1", "here", LATER, "{}")
        started = NewEvent("turn.started", "{}")
        await store.events.begin(turn, started, now=SOON, interrupted=_INTERRUPTED, run=direct)
        expect(await store.runs.get("r-1"), replace(direct, begun_at=SOON), "the run of a turn that has begun")
        waiting = replace(turn, holder=SUSPENDED, until=LATER)
        suspended = [NewEvent("turn.suspended", "{}")]
        await store.events.append(turn, suspended, now=LATER, then=waiting, usage='{"steps":1}')
        await store.events.take(waiting, turn)
        await store.events.append(turn, [NewEvent("turn.resumed", "{}")], now=LATER, then=turn)
        run = await store.runs.get("r-1")
        expect(run and (run.state, run.due_at, run.usage), ("running", None, '{"steps":1}'), "a run that continues")
        await store.events.append(turn, [NewEvent("turn.ended", '{"output":1}')], now=LATER, then=None)
        run = await store.runs.get("r-1")
        expect(
            run and (run.state, run.outcome, run.usage, run.ended_at),
            ("succeeded", '{"output":1}', '{"steps":1}', LATER),
            "the run of a turn that has ended",
        )
        other = TurnRow("a", "r-2", "here", LATER, "{}")
        await store.events.begin(other, started, now=SOON, interrupted=_INTERRUPTED)
        third = replace(turn, turn="r-3")
        await store.events.begin(third, started, now=SOON, interrupted=_INTERRUPTED, run=run_row("r-3", queue=None))
        expect(await store.runs.get("r-3"), None, "the run of a turn that did not begin, beside another")


async def a_run_belongs_to_its_session(make: Make) -> None:
    """Check that a run needs a session, and is deleted with it."""
    async with open_store(make) as store:
        await expect_error(StateError, store.runs.add(run_row("r-1")), "a run of a missing session")
        await create_sessions(store, "a")
        await store.runs.add(run_row("r-1"))
        await store.sessions.delete("a")
        expect(await store.runs.get("r-1"), None, "the run of a deleted session")


async def an_org_has_no_more_unfinished_runs_than_it_may(make: Make) -> None:
    """Check that one more is refused, and accepted once another has ended."""
    async with with_sessions(make, "a") as store:
        await store.runs.add(run_row("r-1"), max_unfinished=1)
        await expect_error(RunsFull, store.runs.add(run_row("r-2"), max_unfinished=1), "one run too many")
        await store.runs.add(run_row("r-3", org="other"), max_unfinished=1)
        await store.runs.change(run_row("r-1"), run_row("r-1", state="cancelled", ended_at=LATER))
        await store.runs.add(run_row("r-2"), max_unfinished=1)


async def runs_are_handed_on_when_they_are_due(make: Make) -> None:
    """Check the runs of a queue that the engine does not have yet, or has released."""
    async with with_sessions(make, "a") as store:
        rows = (
            run_row("r-1", due_at=SOON),
            run_row("r-2"),
            run_row("r-3", queue="mail"),
            run_row("r-4", due_at=None),
            run_row("r-9", state="succeeded"),
            run_row("r-5", due_at=LATER),
            run_row("r-6", state="waiting", kind="call", due_at=None),
            run_row("r-7", state="running"),
            run_row("r-8", state="failed", due_at=None),
        )
        for row in rows:
            await store.runs.add(row)

        async def due(queue: str, limit: int = 100) -> list[str]:
            return [run.id for run in await store.runs.due(queue, now=SOON, limit=limit)]

        expect(await due("default"), ["r-2", "r-7", "r-1"], "the due runs of a queue")
        expect(await due("default", limit=2), ["r-2", "r-7"], "the first two")
        expect(await due("mail"), ["r-3"], "the due runs of another queue")


async def calls_are_found_whose_requests_are_not_open_any_more(make: Make) -> None:
    """Check calls in some queues whose requests were decided, are overdue, or are gone."""
    async with with_sessions(make, "a") as store:
        kinds: dict[str, ApprovalStatus] = {"p": "pending", "r": "rejected", "u": "used", "x": "expired"}
        for name, status in kinds.items():
            row = replace(approval_row(f"a-{name}", name * 64), expires_at=SOON)
            await store.approvals.open(row, max_pending=9)
            await store.approvals.move(replace(row, status=status), "pending")
            await store.runs.add(run_row(f"r-{name}", state="waiting", kind="call", due_at=None, approval=row.id))
        waiting = run_row("r-0", state="waiting", kind="call", due_at=None, approval="a-r", queue="mail")
        rows = (
            waiting,
            replace(waiting, id="r-1", org=None),
            replace(waiting, id="r-2", kind="turn"),
            replace(waiting, id="r-3", state="queued"),
            replace(waiting, id="r-4", approval="a-p"),
            replace(waiting, id="r-5", approval=None),
        )
        for row in rows:
            await store.runs.add(row)

        async def decided(*queues: str, now: str = NOW, limit: int = 100) -> list[str]:
            return [run.id for run in await store.runs.decided(queues, now=now, limit=limit)]

        expect(await decided("default"), ["r-r", "r-u", "r-x"], "the calls of a queue")
        expect(await decided("mail"), ["r-0", "r-1", "r-5"], "those of another, also without a request in their org")
        expect(await decided("mail", "default", limit=4), ["r-0", "r-1", "r-5", "r-r"], "the first of both queues")
        expect(await decided("default", now=SOON), ["r-p", "r-r", "r-u", "r-x"], "those at the time a request expires")
        expect(await decided("other"), [], "the calls of a third queue")


async def a_run_is_changed_by_who_knows_its_state(make: Make) -> None:
    """Check that one of several concurrent changes succeeds."""
    async with with_sessions(make, "a") as store:
        row = run_row("r-1")
        await store.runs.add(row)
        changes = [store.runs.change(row, replace(row, state="running", approval=f"a-{n}")) for n in range(3)]
        expect(sorted(await asyncio.gather(*changes)), [False, False, True], "which changes succeeded")
        stored_row = await store.runs.get("r-1")
        expect(stored_row is not None and stored_row.state == "running", True, "whether the change is stored")
        expect(await store.runs.change(row, row), False, "whether its old state still matches")
        stored_row = stored_row or row
        expect(await store.runs.change(stored_row, replace(stored_row, due_at=LATER)), True, "whether it is due later")
        expect(await store.runs.change(stored_row, replace(stored_row, begun_at=SOON)), True, "whether it has begun")
        due = replace(stored_row, due_at=LATER, begun_at=SOON)
        expect(await store.runs.get("r-1"), due, "a run after changes of different fields")
        ended = replace(
            due, state="succeeded", due_at=None, outcome='{"é":1}', ended_at=LATER, attempts=2, approval="a-9"
        )
        expect(await store.runs.change(due, ended), True, "whether it is changed")
        expect(await store.runs.get("r-1"), ended, "the changed run")


async def a_run_begins_once(make: Make) -> None:
    """Check that its turn begins once, while it is queued and its session is in no other turn."""
    async with with_sessions(make, "a", "b") as store:
        await store.runs.add(run_row("r-1"))
        expect(await _begin(store, "r-1"), "r-1", "the turn that has begun")
        begun = run_row("r-1", state="running", begun_at=SOON)
        expect(await store.runs.get("r-1"), begun, "a run that has begun")
        await store.runs.add(run_row("r-2"))
        expect(await _begin(store, "r-2"), "r-1", "the turn that its session is in")
        expect(await store.runs.get("r-2"), run_row("r-2"), "a run whose session is in another turn")
        await _append_event(store, "r-1", "turn.ended", '{"output":"é"}')
        await expect_error(StateError, _begin(store, "r-1"), "a second turn of a run")
        await expect_error(StateError, _begin(store, "r-9"), "a turn of a missing run")
        expect(await _begin(store, "r-2"), "r-2", "the turn that follows")


async def a_run_follows_its_turn(make: Make) -> None:
    """Check that it waits, runs again and ends with its turn, with the data of the last event as its outcome."""
    async with with_sessions(make, "a") as store:
        row = run_row("r-1", due_at=None, attempts=1)
        await store.runs.add(row)
        await _begin(store, "r-1")
        suspended = TurnRow("a", "r-1", SUSPENDED, LATER, "{}")
        waiting = replace(row, state="waiting", begun_at=SOON, attempts=2)
        expect(await _append_event(store, "r-1", "turn.suspended", then=suspended), waiting, "a run that waits")
        resumed = TurnRow("a", "r-1", "here", LATER, "{}")
        await store.events.take(suspended, resumed)
        running = replace(waiting, state="running", due_at=LATER)
        expect(await _append_event(store, "r-1", "turn.resumed", then=resumed), running, "a run that continues")
        ended = replace(waiting, state="failed", ended_at=LATER, outcome='{"error":"é"}')
        expect(await _append_event(store, "r-1", "turn.failed", '{"error":"é"}'), ended, "a run that failed")
        retried = NewEvent("turn.retried", "{}")
        await store.events.begin(resumed, retried, now=LATER, interrupted=_INTERRUPTED)
        expect(await store.runs.get("r-1"), running, "a run that is retried")
        cancelled = replace(waiting, state="cancelled", ended_at=LATER, outcome='{"by":"ada"}')
        expect(await _append_event(store, "r-1", "turn.cancelled", '{"by":"ada"}'), cancelled, "a cancelled run")


async def a_dead_worker_is_taken_by_one(make: Make) -> None:
    """Check that one of several concurrent takers succeeds, and that a worker that comes back is stored again."""
    async with open_store(make) as store:
        worker = WorkerRow("w-1", ("default", "mail"), NOW, SOON)
        await store.workers.renew(worker)
        await store.workers.renew(WorkerRow("w-2", ("default",), SOON, LATER))
        expect([row.id for row in await store.workers.list()], ["w-1", "w-2"], "the workers")
        taking = [store.workers.take(worker, until=f"2026-01-03T00:00:0{number}.000000Z") for number in range(3)]
        expect(sorted(await asyncio.gather(*taking)), [False, False, True], "which takers succeeded")
        await store.workers.remove("w-1")
        expect([row.id for row in await store.workers.list()], ["w-2"], "the workers without it")
        await store.workers.renew(worker)
        await store.workers.renew(replace(worker, until=LATER))
        expect((await store.workers.list())[0], replace(worker, until=LATER), "a worker that has come back")
