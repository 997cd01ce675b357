"""Checks of sessions' turns and events."""

from __future__ import annotations

import asyncio
from typing import Final

from capset.errors import StateError
from capset.stores.base import KEPT, Begun, EventRow, NewEvent, Store, TurnRow
from capset.testing.store_suite.support import LATER, NOW, Check, Make, begin, expect, expect_error, with_sessions

_STARTED: Final = NewEvent("turn.started", "{}")
_BROKEN: Final = NewEvent("turn.failed", '{"é":1}')
_SOME: Final = NewEvent("tool.executed", '{"tool":"x"}')
_PAST: Final = "2025-12-31T23:59:59.999999Z"


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


CHECKS: Final[tuple[Check, ...]] = (
    events_come_back_in_order,
    a_session_is_in_one_turn_at_a_time,
    a_turn_whose_time_is_up_is_interrupted,
    the_oldest_events_go_first,
    events_go_with_their_session,
)
