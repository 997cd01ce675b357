"""Checks of turns of sessions, and of their events and messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from capset.errors import StateError
from capset.stores.base import (
    MAX_EVENTS,
    SUSPENDED,
    AuditQuery,
    Begun,
    ChangeNotice,
    EventRow,
    MessageRow,
    NewEvent,
    NewMessage,
    Store,
    TurnRow,
)
from capset_testing.store_suite.support import (
    EARLIER,
    LATER,
    NOW,
    Make,
    approval_row,
    create_sessions,
    entry,
    expect,
    expect_error,
    open_store,
    with_sessions,
)

_STARTED: Final = NewEvent("turn.started", "{}")
_INTERRUPTED: Final = NewEvent("turn.failed", '{"é":1}')
_EXECUTED: Final = NewEvent("tool.executed", '{"tool":"x"}')
_MESSAGE: Final = NewMessage("message", '{"said":"é"}')
_SUMMARY: Final = NewMessage("summary", '{"so":"far"}')


async def _begin(
    store: Store, turn: str, *, until: str = LATER, session: str = "a", checkpoint: str | None = None
) -> Begun:
    row = TurnRow(session, turn, "here", until, checkpoint)
    return await store.events.begin(row, _STARTED, now=NOW, interrupted=_INTERRUPTED)


async def _append(
    store: Store,
    turn: str,
    events: list[NewEvent],
    *,
    now: str = NOW,
    until: str | None = LATER,
    messages: Sequence[NewMessage] = (),
) -> int:
    turn_row = TurnRow("a", turn, "here", LATER)
    then = None if until is None else replace(turn_row, until=until)
    return await store.events.append(turn_row, events, now=now, then=then, messages=messages)


async def events_come_back_in_order(make: Make) -> None:
    """Check events numbered from 1 in each session, pages, and the turn that the session is in."""
    async with with_sessions(make, "a", "b") as store:
        expect((await store.events.read("a", after=0, limit=9)).last, 0, "the last number without events")
        expect(await _begin(store, "t1"), Begun("t1", 1), "a turn that begins")
        expect(await _begin(store, "t2", session="b"), Begun("t2", 1), "a turn of another session")
        last = await _append(store, "t1", [_EXECUTED, _EXECUTED], now=LATER)
        expect(last, 3, "the number of the last event")
        expect(await store.events.event_span("a", "t1"), (1, 3), "the events of a turn")
        expect(await store.events.event_span("a", "t2"), None, "the events of a turn of another session")
        rows = [EventRow("a", 1, "t1", _STARTED.type, _STARTED.data, NOW)]
        rows += [EventRow("a", number, "t1", _EXECUTED.type, _EXECUTED.data, LATER) for number in (2, 3)]
        page = await store.events.read("a", after=0, limit=2)
        expect((page.items, page.last), (tuple(rows[:2]), 3), "the first page")
        expect(page.running, TurnRow("a", "t1", "here", LATER), "the session's turn")
        expect((await store.events.read("a", after=2, limit=2)).items, (rows[2],), "the second page")
        expect(await _append(store, "t1", [], now=LATER, until=None), 3, "the end of the turn")
        page = await store.events.read("a", after=3, limit=2)
        expect((page.items, page.last, page.running), ((), 3, None), "the page afterwards")


async def a_session_is_in_one_turn_at_a_time(make: Make) -> None:
    """Check that one of several concurrent turns begins, and that the others get that one's id."""
    async with with_sessions(make, "a") as store:
        begun = await asyncio.gather(*[_begin(store, f"t{number}") for number in range(8)])
        expect(len({start.turn for start in begun}), 1, "how many turns began")
        expect((await store.events.read("a", after=0, limit=9)).last, 1, "how many events they left")
        first = begun[0].turn
        error = await expect_error(
            StateError, _append(store, "other", [_EXECUTED], until=None), "an event of another turn"
        )
        expect(error.status, 409, "its status")
        await _append(store, first, [_EXECUTED], until=None)
        expect(await _begin(store, "next"), Begun("next", 3), "the next turn")


async def a_turn_whose_time_is_up_is_interrupted(make: Make) -> None:
    """Check interruption by the next turn and on request; later events are refused. Renewed turns go on."""
    async with with_sessions(make, "a") as store:
        await _begin(store, "t1", until=NOW)
        await _append(store, "t1", [])
        expect(await store.events.interrupt("a", now=NOW, interrupted=_INTERRUPTED), False, "a turn that was renewed")
        expect(await store.events.interrupt("a", now=LATER, interrupted=_INTERRUPTED), True, "an expired turn")
        expect(await store.events.interrupt("a", now=LATER, interrupted=_INTERRUPTED), False, "an ended turn")
        await _begin(store, "t2", until=EARLIER)
        expect((await _begin(store, "t3")).turn, "t3", "the turn after an expired one")
        events = [(row.turn, row.type) for row in (await store.events.read("a", after=0, limit=9)).items]
        first = [("t1", "turn.started"), ("t1", "turn.failed"), ("t2", "turn.started"), ("t2", "turn.failed")]
        expect(events, [*first, ("t3", "turn.started")], "the events")
        error = await expect_error(StateError, _append(store, "t2", [_EXECUTED]), "an event after its end")
        expect(error.status, 409, "its status")


async def the_oldest_events_go_first(make: Make) -> None:
    """Check that the newest ``MAX_EVENTS`` events of a session stay."""
    async with with_sessions(make, "a") as store:
        await _begin(store, "t1")
        await _append(store, "t1", [_EXECUTED] * MAX_EVENTS)
        page = await store.events.read("a", after=0, limit=1)
        expect((page.items[0].seq, page.last), (2, MAX_EVENTS + 1), "the first and the last that are kept")
        await _append(store, "t1", [_EXECUTED], until=None)
        expect((await store.events.read("a", after=0, limit=1)).items[0].seq, 3, "the first after one more")


async def events_go_with_their_session(make: Make) -> None:
    """Check that events are deleted with their session, and that a missing session has none."""
    async with with_sessions(make, "a") as store:
        await _begin(store, "t1")
        await store.sessions.delete("a")
        for awaitable in (
            store.events.read("a", after=0, limit=1),
            _append(store, "t1", [_EXECUTED]),
            _begin(store, "t2"),
        ):
            error = await expect_error(StateError, awaitable, "events of a session that was deleted")
            expect(error.status, 404, "their status")
        expect(await store.events.interrupt("a", now=LATER, interrupted=_INTERRUPTED), False, "its turn")
        await create_sessions(store, "a")
        expect((await store.events.read("a", after=0, limit=1)).last, 0, "the events of a new session of that id")


async def the_latest_events_of_many_sessions_are_told(make: Make) -> None:
    """Check that sessions without events have the number 0, and that missing ones are left out."""
    async with open_store(make) as store:
        for name in ("a", "b", "c"):
            await create_sessions(store, name)
        expect(await store.events.latest([]), {}, "the latest events of no session")
        await _begin(store, "t1")
        await _append(store, "t1", [_EXECUTED])
        await store.sessions.delete("c")
        expect(await store.events.latest(["a", "b", "c", "d", "\ud800"]), {"a": 2, "b": 0}, "the latest events")
        many = [*map(str, range(2_500)), "a"]
        expect(await store.events.latest(many), {"a": 2}, "the latest events of many sessions")


async def notices_of_changes_are_of_what_has_changed(make: Make) -> None:
    """Check notices of a session's events, or ``None`` for missed ones, until the listener leaves."""
    async with with_sessions(make, "a") as store:
        heard: list[ChangeNotice | None] = []
        async with store.changes.subscribe(heard.append):
            await _begin(store, "t1")
            await asyncio.sleep(0.05)  # another process would have heard by now
        expect({*heard} <= {ChangeNotice("events", "a"), None}, True, f"nothing but the session is heard: {heard}")
        heard.clear()
        await _append(store, "t1", [_EXECUTED])
        await asyncio.sleep(0.05)
        expect(heard, [], "what is heard after leaving")


async def a_turn_is_written_by_its_holder_alone(make: Make) -> None:
    """Check that a process that lost a turn to another can neither write to it nor end it."""
    async with with_sessions(make, "a") as store:
        await _begin(store, "t1", checkpoint="{}")
        mine = TurnRow("a", "t1", "here", LATER, "{}")
        theirs = TurnRow("a", "t1", "there", LATER, '{"at":1}')
        expect(await store.events.take(replace(mine, until=NOW), theirs), False, "taking a turn that was renewed")
        expect(await store.events.take(mine, theirs), True, "taking a turn")
        expect(await store.events.take(mine, theirs), False, "taking it a second time")
        for then in (None, mine):
            error = await expect_error(
                StateError,
                store.events.append(mine, [_EXECUTED], now=NOW, then=then, messages=[_MESSAGE]),
                "a write by the former holder",
            )
            expect(error.status, 409, "its status")
        page = await store.events.read("a", after=0, limit=9)
        expect((page.last, page.running), (1, theirs), "the events afterwards")
        expect((await store.events.messages("a")).items, (), "its messages")
        expect(await store.events.append(theirs, [_EXECUTED], now=NOW, then=None), 2, "the end by the new holder")


async def a_turn_with_a_checkpoint_is_continued_not_interrupted(make: Make) -> None:
    """Check that an expired turn is due, and a suspended one once a request of its session is decided."""
    async with with_sessions(make, "a", "b", "c") as store:
        await _begin(store, "t1", until=EARLIER, checkpoint="{}")
        expect(await store.events.interrupt("a", now=NOW, interrupted=_INTERRUPTED), False, "interrupting it")
        expect((await _begin(store, "t9")).turn, "t1", "the turn that its session is in")
        await _begin(store, "t2", session="b", until=EARLIER)
        await _begin(store, "t3", session="c", checkpoint="{}")
        (expired,) = await store.events.due(NOW)
        expect(expired, TurnRow("a", "t1", "here", EARLIER, "{}"), "the turns that are due")
        request = replace(approval_row("r1"), org=None, session="c")
        await store.approvals.open(request, max_pending=9)
        running = TurnRow("c", "t3", "here", LATER, "{}")
        waiting = replace(running, holder=SUSPENDED, checkpoint='{"waits":1}')
        await store.events.append(running, [], now=NOW, then=waiting)
        expect(list(await store.events.due(NOW)), [expired], "the turns that are due while one waits")
        await store.approvals.move(replace(request, status="approved", decided_at=NOW), "pending")
        due = [expired, replace(waiting, until=NOW)]
        expect(list(await store.events.due(NOW)), due, "the turns that are due once it is approved")
        expect(list(await store.events.due(NOW, limit=1)), [expired], "the first of them")


async def messages_come_back_in_order(make: Make) -> None:
    """Check messages numbered from 1 in each session, pages, and that they are stored with their events."""
    async with with_sessions(make, "a", "b") as store:
        expect((await store.events.messages("a")).items, (), "the messages of an empty conversation")
        expect((await store.events.messages("a", after=None)).items, (), "the messages since its summary")
        await _begin(store, "t1")
        await _append(store, "t1", [_EXECUTED], messages=[_MESSAGE, _SUMMARY])
        await _append(store, "t1", [], until=None, messages=[_MESSAGE])
        rows = [
            MessageRow("a", number, "t1", message.kind, message.data, NOW)
            for number, message in enumerate((_MESSAGE, _SUMMARY, _MESSAGE), 1)
        ]
        page = await store.events.messages("a", limit=2)
        expect((page.items, page.count), (tuple(rows[:2]), 3), "the first page")
        expect(page.bytes, sum(len(row.data.encode()) for row in rows), "the total bytes")
        expect((await store.events.messages("a", after=2)).items, (rows[2],), "the second page")
        expect((await store.events.messages("a", max_bytes=1)).items, (rows[0],), "a page limited in bytes")
        since = await store.events.messages("a", after=None)
        expect((since.items, since.count), (tuple(rows[1:]), 3), "the messages since the newest summary")
        expect((await store.events.messages("b")).items, (), "the messages of another session")
        await _begin(store, "t2")
        bad = NewMessage("message", '"\0"')
        await expect_error(StateError, _append(store, "t2", [_EXECUTED], messages=[bad]), "a message with NUL")
        expect((await store.events.read("a", after=0, limit=9)).last, 3, "the last event after that")


async def a_conversation_is_rewound_and_copied(make: Make) -> None:
    """Check that rewinding is refused during a turn, and copying into a session that has a conversation."""
    async with with_sessions(make, "a", "b") as store:
        await _begin(store, "t1")
        await _append(store, "t1", [], messages=[_MESSAGE, _MESSAGE, _SUMMARY])
        error = await expect_error(StateError, store.events.rewind("a", to=1), "rewinding within a turn")
        expect(error.status, 409, "its status")
        await _append(store, "t1", [], until=None)
        expect(await store.events.copy("a", "b", to=2), 2, "the number of copied messages")
        copied = (await store.events.messages("b")).items
        expect(
            [(row.session, row.seq, row.data) for row in copied], [("b", n, _MESSAGE.data) for n in (1, 2)], "the copy"
        )
        error = await expect_error(StateError, store.events.copy("a", "b", to=1), "copying into a conversation")
        expect(error.status, 409, "its status")
        expect(await store.events.span("a", "t1"), (1, 3), "the messages of a turn")
        expect(await store.events.span("a", "t2"), None, "the messages of another turn")
        done = await store.events.rewind("a", to=1, act=entry("act-1", phase="act", act="session.rewind"))
        expect(done, 2, "the number of removed messages")
        (record,) = (await store.audit.query(AuditQuery(act="session.rewind"))).items
        expect(record.id, "act-1", "the record of it")
        expect(await store.events.rewind("a", to=1), 0, "the number of messages removed again")
        expect((await store.events.messages("a")).count, 1, "the number of remaining messages")
        for awaitable in (
            store.events.messages("none"),
            store.events.rewind("none", to=0),
            store.events.copy("none", "b", to=1),
            store.events.copy("a", "none", to=1),
        ):
            error = await expect_error(StateError, awaitable, "messages of a session that does not exist")
            expect(error.status, 404, "their status")
        await store.sessions.delete("b")
        await create_sessions(store, "b")
        expect((await store.events.messages("b")).items, (), "the messages of a new session of that id")
