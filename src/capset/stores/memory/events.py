"""Sessions' turns and their events in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from capset.stores.base import KEPT, Begun, EventPage, EventRow, NewEvent, TurnRow
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.texts import gone, over, storable


class MemoryEvents:
    """The events by session; ``sessions`` are the ids of existing sessions."""

    def __init__(self, door: Lifecycle, sessions: AbstractSet[str]) -> None:
        self._door = door
        self._sessions = sessions
        self._rows: dict[str, deque[EventRow]] = {}
        self._turns: dict[str, TurnRow] = {}

    async def begin(self, turn: TurnRow, started: NewEvent, *, now: str, interrupted: NewEvent) -> Begun:
        """Begin a turn with its first event, or return the turn that the session is in already."""
        self._check(turn.session, "turn")
        await self.interrupt(turn.session, now=now, interrupted=interrupted)
        if (there := self._turns.get(turn.session)) is not None:
            return Begun(there.turn, self._last(turn.session))
        last = self._put(turn.session, turn.turn, [started], now)
        self._turns[turn.session] = turn
        return Begun(turn.turn, last)

    async def append(self, session: str, turn: str, events: Sequence[NewEvent], *, now: str, until: str | None) -> int:
        """Store events of a turn, extend it ``until`` then or end it with ``None``; return the last event's number."""
        self._check(session, "turn")
        there = self._turns.get(session)
        if there is None or there.turn != turn:
            raise over(turn)
        last = self._put(session, turn, events, now)
        if until is None:
            del self._turns[session]
        else:
            self._turns[session] = replace(there, until=until)
        return last

    async def interrupt(self, session: str, *, now: str, interrupted: NewEvent) -> bool:
        """End an expired turn with the event ``interrupted``, and return whether there was one."""
        self._door.check()
        there = self._turns.get(session)
        if there is None or there.until > now:
            return False
        self._put(session, there.turn, [interrupted], now)
        del self._turns[session]
        return True

    async def read(self, session: str, *, after: int, limit: int) -> EventPage:
        """Return the events whose numbers are greater than ``after``, at most ``limit`` of them."""
        self._check(session, "event")
        found = [row for row in self._rows.get(session, ()) if row.seq > after]
        return EventPage(tuple(found[:limit]), self._last(session), self._turns.get(session))

    def drop(self, session: str) -> None:
        """Forget the turns of a deleted session."""
        self._rows.pop(session, None)
        self._turns.pop(session, None)

    def _check(self, session: str, what: str) -> None:
        self._door.check()
        if session not in self._sessions:
            raise gone(what)

    def _last(self, session: str) -> int:
        rows = self._rows.get(session)
        return rows[-1].seq if rows else 0

    def _put(self, session: str, turn: str, events: Sequence[NewEvent], now: str) -> int:
        last = self._last(session)
        new = [
            EventRow(session, last + number, turn, one.type, storable(one.data, "the event"), now)
            for number, one in enumerate(events, 1)
        ]
        self._rows.setdefault(session, deque(maxlen=KEPT)).extend(new)
        return last + len(new)
