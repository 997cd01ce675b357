"""The turns of sessions in memory, with their events and messages."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import replace

from capset.errors import StateError
from capset.stores.base import (
    MAX_EVENTS,
    SUSPENDED,
    Begun,
    Entry,
    EventPage,
    EventRow,
    MessagePage,
    MessageRow,
    NewEvent,
    NewMessage,
    NoticeCallback,
    RunRow,
    TurnHold,
    TurnRow,
)
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.memory.runs import MemoryRuns
from capset.stores.pages import page_of
from capset.stores.texts import ended_turn_error, missing_session_error, running_turn_error, storable


class MemoryEvents:
    """The turns, events and messages, by session. ``sessions`` has the ids of existing sessions."""

    def __init__(self, lifecycle: Lifecycle, sessions: AbstractSet[str], runs: MemoryRuns) -> None:
        self._lifecycle = lifecycle
        self._sessions = sessions
        self._runs = runs
        self._messages: dict[str, list[MessageRow]] = {}
        self._rows: dict[str, deque[EventRow]] = {}
        self._turns: dict[str, TurnRow] = {}

    async def begin(
        self,
        turn: TurnRow,
        started: NewEvent,
        *,
        now: str,
        interrupted: NewEvent,
        is_queued: bool = False,
        run: RunRow | None = None,
    ) -> Begun:
        self._require_session(turn.session, "turn")
        if is_queued and not self._runs.is_queued(turn.turn):
            raise ended_turn_error(turn.turn)
        await self.interrupt(turn.session, now=now, interrupted=interrupted)
        if (current := self._turns.get(turn.session)) is not None:
            return Begun(current.turn, self._last(turn.session))
        if run is not None:
            await self._runs.add(run)
        last = self._add_events(turn.session, turn.turn, [started], now)
        self._turns[turn.session] = turn
        return Begun(turn.turn, last)

    def is_held(self, hold: TurnHold) -> bool:
        """Return whether a process still holds the turn of a session."""
        current = self._turns.get(hold.session)
        return current is not None and (current.turn, current.holder) == (hold.turn, hold.holder)

    async def append(
        self,
        held: TurnRow,
        events: Sequence[NewEvent],
        *,
        now: str,
        then: TurnRow | None,
        messages: Sequence[NewMessage] = (),
        usage: str | None = None,
    ) -> int:
        session = held.session
        self._require_session(session, "turn")
        current = self._turns.get(session)
        if current is None or (current.turn, current.holder) != (held.turn, held.holder):
            raise ended_turn_error(held.turn)
        texts = [storable(message.data, "the message") for message in messages]
        last = self._add_events(session, held.turn, events, now, usage)
        stored = self._messages.setdefault(session, [])
        for message, text in zip(messages, texts, strict=True):
            stored.append(MessageRow(session, len(stored) + 1, held.turn, message.kind, text, now))
        if then is None:
            del self._turns[session]
        else:
            self._turns[session] = replace(current, holder=then.holder, until=then.until, checkpoint=then.checkpoint)
        return last

    async def take(self, previous: TurnRow, then: TurnRow) -> bool:
        self._lifecycle.check()
        current = self._turns.get(previous.session)
        if current is None or (current.turn, current.holder, current.until) != (
            previous.turn,
            previous.holder,
            previous.until,
        ):
            return False
        self._turns[previous.session] = replace(
            current, holder=then.holder, until=then.until, checkpoint=then.checkpoint
        )
        return True

    async def due(self, now: str, *, limit: int = 100) -> Sequence[TurnRow]:
        self._lifecycle.check()
        matching = [turn for turn in self._turns.values() if turn.checkpoint is not None and turn.until <= now]
        return sorted(matching, key=lambda turn: (turn.until, turn.session))[:limit]

    def resume_suspended(self, session: str, now: str) -> None:
        """Make the suspended turn of a session due, since one of its requests was decided."""
        current = self._turns.get(session)
        if current is not None and current.holder == SUSPENDED:
            self._turns[session] = replace(current, until=now)

    async def interrupt(self, session: str, *, now: str, interrupted: NewEvent) -> bool:
        self._lifecycle.check()
        current = self._turns.get(session)
        if current is None or current.until > now or current.checkpoint is not None:
            return False
        self._add_events(session, current.turn, [interrupted], now)
        del self._turns[session]
        return True

    async def latest(self, sessions: Collection[str]) -> Mapping[str, int]:
        self._lifecycle.check()
        return {session: self._last(session) for session in sessions if session in self._sessions}

    @asynccontextmanager
    async def subscribe(self, on_notice: NoticeCallback) -> AsyncGenerator[Callable[[], bool]]:
        """Yield a function that returns false: there are no notifications, since there is no other process."""
        self._lifecycle.check()
        yield lambda: False

    async def read(self, session: str, *, after: int, limit: int) -> EventPage:
        self._require_session(session, "event")
        rows = [row for row in self._rows.get(session, ()) if row.seq > after]
        return EventPage(tuple(rows[:limit]), self._last(session), self._turns.get(session))

    async def event_span(self, session: str, turn: str) -> tuple[int, int] | None:
        self._lifecycle.check()
        numbers = [row.seq for row in self._rows.get(session, ()) if row.turn == turn]
        return (numbers[0], numbers[-1]) if numbers else None

    async def messages(
        self, session: str, *, after: int | None = 0, limit: int = 1_000, max_bytes: int | None = None
    ) -> MessagePage:
        self._require_session(session, "message")
        rows = self._messages.get(session, [])
        if after is None:
            after = max((row.seq - 1 for row in rows if row.kind == "summary"), default=0)
        items, _ = page_of(rows[after : after + limit + 1], limit, max_bytes)
        return MessagePage(items, len(rows), sum(len(row.data.encode()) for row in rows))

    async def span(self, session: str, turn: str) -> tuple[int, int] | None:
        self._lifecycle.check()
        numbers = [row.seq for row in self._messages.get(session, []) if row.turn == turn]
        return (numbers[0], numbers[-1]) if numbers else None

    async def rewind(self, session: str, *, to: int, act: Entry | None = None) -> int:
        self._require_session(session, "message")
        if (current := self._turns.get(session)) is not None:
            raise running_turn_error(current.turn)
        rows = self._messages.get(session, [])
        removed = len(rows[to:])
        if removed:
            self._lifecycle.record(act)
        del rows[to:]
        return removed

    async def copy(self, source: str, target: str, *, to: int) -> int:
        for session in (source, target):
            self._require_session(session, "message")
        if self._messages.get(target):
            raise StateError(f"the session {target!r} already has a conversation", status=409)
        copied = [replace(row, session=target) for row in self._messages.get(source, [])[:to]]
        self._messages[target] = copied
        return len(copied)

    def drop(self, session: str) -> None:
        """Forget the turns, events and messages of a deleted session."""
        self._rows.pop(session, None)
        self._turns.pop(session, None)
        self._messages.pop(session, None)

    def _require_session(self, session: str, kind: str) -> None:
        self._lifecycle.check()
        if session not in self._sessions:
            raise missing_session_error(kind)

    def _last(self, session: str) -> int:
        rows = self._rows.get(session)
        return rows[-1].seq if rows else 0

    def _add_events(
        self, session: str, turn: str, events: Sequence[NewEvent], now: str, usage: str | None = None
    ) -> int:
        last = self._last(session)
        new = [
            EventRow(session, last + number, turn, event.type, storable(event.data, "the event"), now)
            for number, event in enumerate(events, 1)
        ]
        self._rows.setdefault(session, deque(maxlen=MAX_EVENTS)).extend(new)
        for event in events:
            self._runs.update_state(turn, event.type, event.data, now, usage)
        return last + len(new)
