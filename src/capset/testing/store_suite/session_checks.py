"""Checks of the sessions, and of their turns and events."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from capset.errors import StateError, StoreError
from capset.stores.base import KEPT, Begun, EventRow, NewEvent, SessionQuery, Store, TurnRow
from capset.testing.store_suite.support import (
    LATER,
    NOW,
    Check,
    Make,
    begin,
    expect,
    expect_error,
    opened,
    session_row,
    with_sessions,
)

_STARTED: Final = NewEvent("turn.started", "{}")
_BROKEN: Final = NewEvent("turn.failed", '{"é":1}')
_SOME: Final = NewEvent("tool.executed", '{"tool":"x"}')
_PAST: Final = "2025-12-31T23:59:59.999999Z"


async def a_session_comes_back_as_it_was_given(make: Make) -> None:
    """With an org and without."""
    async with opened(make) as store:
        await store.sessions.create(session_row("a"))
        await store.sessions.create(session_row("b", org="acme"))
        expect(await store.sessions.get("a"), session_row("a"), "the session without an org")
        expect(await store.sessions.get("b"), session_row("b", org="acme"), "the session with an org")
        expect(await store.sessions.get("c"), None, "a session that no one made")


async def a_second_session_of_an_id_is_refused(make: Make) -> None:
    """Check that the first session stays unchanged."""
    async with opened(make) as store:
        await store.sessions.create(session_row("a"))
        await expect_error(StoreError, store.sessions.create(session_row("a", org="acme")), "a second session of an id")
        expect(await store.sessions.get("a"), session_row("a"), "the first session")


async def a_door_keeps_one_session(make: Make) -> None:
    """Check that the session keeps id, files and time, and takes the new definition; other doors have their own."""
    async with opened(make) as store:
        first = replace(session_row("a"), door="x", agent_id="agent-1", agent_version=1)
        expect(await store.sessions.ensure(first), first, "the first session of a door")
        await store.files.write("a", "/x.txt", b"kept", org=None, now=NOW)
        later = replace(first, id="b", created_at=LATER, definition='{"name":"other"}', agent_version=2)
        kept = replace(later, id="a", created_at=NOW)
        expect(await store.sessions.ensure(later), kept, "what the door keeps")
        expect(await store.sessions.get("a"), kept, "the session of the door")
        expect(await store.sessions.get("b"), None, "a second session of the door")
        expect((await store.files.read("a", "/x.txt"))[1], b"kept", "its file")
        other = replace(first, id="c", door="y")
        expect(await store.sessions.ensure(other), other, "the session of another door")


async def a_session_moves_to_another_version_of_its_agent(make: Make) -> None:
    """Only the agent's fields change, and only from the expected version."""
    async with opened(make) as store:
        made = {"agent_id": "agent-1", "agent_version": 1, "invocation_hash": "4" * 64, "context": '{"ticket":7}'}
        first = replace(session_row("a"), **made)
        await store.sessions.create(first)
        expect(await store.sessions.get("a"), first, "a session with an invocation and a context")
        agent = {"agent": "other", "definition": '{"name":"other"}', "static_hash": "2" * 64, "agent_version": 2}
        asked = replace(first, **agent, created_at=LATER, principal="user-2", context=None)
        expect(await store.sessions.move(asked, expected=3), False, "moving from a version that it has not")
        expect(await store.sessions.get("a"), first, "the session that was not moved")
        expect(await store.sessions.move(asked, expected=1), True, "moving a session")
        expect(await store.sessions.get("a"), replace(first, **agent), "the session that was moved")
        expect(await store.sessions.move(first, expected=None), True, "moving it from any version")
        expect(await store.sessions.get("a"), first, "the session that was moved back")
        expect(await store.sessions.move(session_row("b"), expected=None), False, "moving a session that is not there")


async def sessions_are_listed_newest_first_by_org(make: Make) -> None:
    """Page by page, and only the requested ones."""
    async with opened(make) as store:
        rows = [session_row(f"id-{number}", org="acme" if number % 2 else None) for number in range(6)]
        rows[5] = replace(rows[5], principal="user-2", agent_id="agent-1")
        for row in rows:
            await store.sessions.create(row)
        page = await store.sessions.list(SessionQuery(None, limit=2))
        expect(page.items, (rows[4], rows[2]), "the first page")
        page = await store.sessions.list(SessionQuery(None, limit=2, before=page.next))
        expect((page.items, page.next), ((rows[0],), None), "the last page")
        for query, items in (
            (SessionQuery("acme"), (rows[5], rows[3], rows[1])),
            (SessionQuery("acme", principal="user-2"), (rows[5],)),
            (SessionQuery("acme", principal="user-1", principal_kind="user"), (rows[3], rows[1])),
            (SessionQuery("acme", principal="user-1", principal_kind="agent"), ()),
            (SessionQuery("acme", agent_id="agent-1"), (rows[5],)),
            (SessionQuery("other"), ()),
        ):
            expect((await store.sessions.list(query)).items, items, f"what {query} finds")


async def a_deleted_session_takes_its_files_with_it(make: Make) -> None:
    """Files of others stay, even those with the same content."""
    async with opened(make) as store:
        for one in ("a", "b"):
            await store.sessions.create(replace(session_row(one), door=one))
            await store.files.write(one, "/in/x.txt", b"same", org=None, now=NOW)
        expect(await store.sessions.delete("a"), True, "deleting a session")
        expect(await store.sessions.delete("a"), False, "deleting it again")
        expect(await store.sessions.get("a"), None, "the deleted session")
        expect(await store.files.list("a", "/", recursive=True), [], "its files")
        expect((await store.files.read("b", "/in/x.txt"))[1], b"same", "the other session's file")
        again = replace(session_row("c"), door="a")
        expect(await store.sessions.ensure(again), again, "a new session of the deleted one's door")


async def _begin(store: Store, turn: str, *, until: str = LATER, now: str = NOW, session: str = "a") -> Begun:
    return await store.events.begin(TurnRow(session, turn, "here", until), _STARTED, now=now, interrupted=_BROKEN)


async def events_come_back_in_order(make: Make) -> None:
    """Numbered from 1 in each session, page by page, with the turn that the session is in."""
    async with with_sessions(make, "a", "b") as store:
        expect((await store.events.read("a", after=0, limit=9)).last, 0, "the last of no events")
        expect(await _begin(store, "t1"), Begun("t1", 1), "a turn that begins")
        expect(await _begin(store, "t2", session="b"), Begun("t2", 1), "one of another session")
        last = await store.events.append("a", "t1", [_SOME, _SOME], now=LATER, until=LATER)
        expect(last, 3, "the number of the last event")
        rows = [EventRow("a", 1, "t1", _STARTED.type, _STARTED.data, NOW)]
        rows += [EventRow("a", number, "t1", _SOME.type, _SOME.data, LATER) for number in (2, 3)]
        page = await store.events.read("a", after=0, limit=2)
        expect((page.items, page.last), (tuple(rows[:2]), 3), "the first page")
        expect(page.running, TurnRow("a", "t1", "here", LATER), "the turn that it is in")
        expect((await store.events.read("a", after=2, limit=2)).items, (rows[2],), "the second page")
        expect(await store.events.append("a", "t1", [], now=LATER, until=None), 3, "the end of the turn")
        page = await store.events.read("a", after=3, limit=2)
        expect((page.items, page.last, page.running), ((), 3, None), "what there is afterwards")


async def a_session_is_in_one_turn_at_a_time(make: Make) -> None:
    """Of several that begin at once one succeeds, and the others get that one."""
    async with with_sessions(make, "a") as store:
        begun = await asyncio.gather(*[_begin(store, f"t{number}") for number in range(8)])
        expect(len({one.turn for one in begun}), 1, "how many turns began")
        expect((await store.events.read("a", after=0, limit=9)).last, 1, "how many events they left")
        first = begun[0].turn
        error = await expect_error(
            StateError, store.events.append("a", "other", [_SOME], now=NOW, until=None), "an event of another turn"
        )
        expect(error.status, 409, "its status")
        await store.events.append("a", first, [_SOME], now=NOW, until=None)
        expect(await _begin(store, "next"), Begun("next", 3), "the turn after it")


async def a_turn_whose_time_is_up_is_interrupted(make: Make) -> None:
    """By the next turn or on request; its later events are refused. A renewed turn is not interrupted."""
    async with with_sessions(make, "a") as store:
        await _begin(store, "t1", until=NOW)
        await store.events.append("a", "t1", [], now=NOW, until=LATER)
        expect(await store.events.interrupt("a", now=NOW, interrupted=_BROKEN), False, "a turn that was renewed")
        expect(await store.events.interrupt("a", now=LATER, interrupted=_BROKEN), True, "one whose time is up")
        expect(await store.events.interrupt("a", now=LATER, interrupted=_BROKEN), False, "one that is over")
        await _begin(store, "t2", until=_PAST)
        expect((await _begin(store, "t3")).turn, "t3", "the turn after one whose time is up")
        told = [(row.turn, row.type) for row in (await store.events.read("a", after=0, limit=9)).items]
        first = [("t1", "turn.started"), ("t1", "turn.failed"), ("t2", "turn.started"), ("t2", "turn.failed")]
        expect(told, [*first, ("t3", "turn.started")], "what was told")
        error = await expect_error(
            StateError, store.events.append("a", "t2", [_SOME], now=NOW, until=LATER), "an event after its end"
        )
        expect(error.status, 409, "its status")


async def the_oldest_events_go_first(make: Make) -> None:
    """Check that the newest ten thousand of a session stay."""
    async with with_sessions(make, "a") as store:
        await _begin(store, "t1")
        await store.events.append("a", "t1", [_SOME] * KEPT, now=NOW, until=LATER)
        page = await store.events.read("a", after=0, limit=1)
        expect((page.items[0].seq, page.last), (2, KEPT + 1), "the first and the last that are kept")
        await store.events.append("a", "t1", [_SOME], now=NOW, until=None)
        expect((await store.events.read("a", after=0, limit=1)).items[0].seq, 3, "the first after one more")


async def events_go_with_their_session(make: Make) -> None:
    """Check that events are deleted with their session, and that a missing session has none."""
    async with with_sessions(make, "a") as store:
        await _begin(store, "t1")
        await store.sessions.delete("a")
        for awaitable in (
            store.events.read("a", after=0, limit=1),
            store.events.append("a", "t1", [_SOME], now=NOW, until=LATER),
            _begin(store, "t2"),
        ):
            error = await expect_error(StateError, awaitable, "events of a session that was deleted")
            expect(error.status, 404, "their status")
        expect(await store.events.interrupt("a", now=LATER, interrupted=_BROKEN), False, "its turn")
        await begin(store, "a")
        expect((await store.events.read("a", after=0, limit=1)).last, 0, "the events of a new session of that id")


async def the_latest_events_of_many_sessions_are_told(make: Make) -> None:
    """Check that sessions without events have the number 0, and that missing ones are left out."""
    async with opened(make) as store:
        for name in ("a", "b", "c"):
            await begin(store, name)
        expect(await store.events.latest([]), {}, "the latest events of no session")
        await _begin(store, "t1")
        await store.events.append("a", "t1", [_SOME], now=NOW, until=LATER)
        await store.sessions.delete("c")
        expect(await store.events.latest(["a", "b", "c", "d", "\ud800"]), {"a": 2, "b": 0}, "the latest events")
        many = [*map(str, range(2_500)), "a"]
        expect(await store.events.latest(many), {"a": 2}, "the latest events of many sessions")


CHECKS: Final[tuple[Check, ...]] = (
    a_session_comes_back_as_it_was_given,
    a_second_session_of_an_id_is_refused,
    a_door_keeps_one_session,
    a_session_moves_to_another_version_of_its_agent,
    sessions_are_listed_newest_first_by_org,
    a_deleted_session_takes_its_files_with_it,
    events_come_back_in_order,
    a_session_is_in_one_turn_at_a_time,
    a_turn_whose_time_is_up_is_interrupted,
    the_oldest_events_go_first,
    events_go_with_their_session,
    the_latest_events_of_many_sessions_are_told,
)
