"""The sessions, their turns and events, and the stored replies: a row each, so that numbers of events have no gaps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from capset.errors import StoreError
from capset.stores.base import (
    KEPT,
    MOVED,
    Begun,
    Entry,
    EventPage,
    EventRow,
    NewEvent,
    SessionPage,
    SessionQuery,
    SessionRow,
    TurnRow,
)
from capset.stores.rows import can_be
from capset.stores.sql.blobs import Parts
from capset.stores.sql.files import FileRows
from capset.stores.sql.notifications import Heard, Notifications
from capset.stores.sql.reader import ReadConnections, read_rows
from capset.stores.sql.schema.tables import (
    approvals,
    replies,
    reservations,
    session_events,
    session_turns,
    sessions,
    spendings,
)
from capset.stores.sql.writer.writer import Writer
from capset.stores.texts import gone, over, storable

_NAMED: Final = 1_000
"""Number of ids per statement."""


class SqlSessions:
    """The sessions, one row each."""

    def __init__(self, writer: Writer, reader: ReadConnections, notifications: Notifications, parts: Parts) -> None:
        self._writer = writer
        self._reader = reader
        self._notifications = notifications
        self._parts = parts

    async def create(self, row: SessionRow) -> None:
        """Store a new session. Raises ``StoreError`` if its id is taken."""
        await self._writer.write(lambda connection: _insert(connection, row))

    async def ensure(self, row: SessionRow) -> SessionRow:
        """Store a new session with a ``door``, or update the one that has that door."""

        def write(connection: Connection) -> SessionRow:
            own = sessions.c.door == row.door
            found = connection.execute(select(sessions.c.id, sessions.c.created_at).where(own)).one_or_none()
            if found is None:
                _insert(connection, row)
                return row
            kept = replace(row, id=found.id, created_at=found.created_at)
            connection.execute(update(sessions).where(own).values(asdict(kept)))
            return kept

        return await self._writer.write(write)

    async def move(self, row: SessionRow, *, expected: int | None, act: Entry | None = None) -> bool:
        """Move a session to another version of its agent; return whether it had the expected one."""
        moved = update(sessions).where(sessions.c.id == row.id).values({name: getattr(row, name) for name in MOVED})
        if expected is not None:
            moved = moved.where(sessions.c.agent_version == expected)
        return await self._writer.write(lambda connection: bool(connection.execute(moved).rowcount), act)

    async def get(self, id: str) -> SessionRow | None:
        """Return a session, or ``None``."""

        def read(connection: Connection) -> SessionRow | None:
            found = connection.execute(select(sessions).where(sessions.c.id == id)).mappings().one_or_none()
            return SessionRow(**found) if found else None

        return await self._reader.read(read)

    async def list(self, query: SessionQuery) -> SessionPage:
        """Return sessions, newest first."""
        of_org = sessions.c.org == query.org if query.org is not None else sessions.c.org.is_(None)
        wanted = select(sessions).where(of_org).order_by(sessions.c.id.desc())
        for name in ("principal", "principal_kind", "agent_id"):
            if (value := getattr(query, name)) is not None:
                wanted = wanted.where(sessions.c[name] == value)
        if query.before is not None:
            wanted = wanted.where(sessions.c.id < query.before)

        def read(connection: Connection) -> SessionPage:
            found, has_more = read_rows(connection, wanted, query.limit, query.max_bytes)
            items = tuple([SessionRow(**row) for row in found])
            return SessionPage(items, items[-1].id if has_more else None)

        return await self._reader.read(read)

    async def delete(self, id: str, *, act: Entry | None = None) -> bool:
        """Delete a session with all its data, and return whether there was one."""

        def write(connection: Connection) -> bool:
            FileRows(connection, id).remove_all(self._parts)
            org = connection.execute(select(sessions.c.org).where(sessions.c.id == id)).scalar() or ""
            connection.execute(delete(approvals).where(approvals.c.org == org, approvals.c.session == id))
            connection.execute(delete(replies).where(replies.c.session == id))
            of_runs = (spendings.c.owner > f"{id}/") & (spendings.c.owner < f"{id}0")  # the character after a slash
            connection.execute(delete(spendings).where((spendings.c.owner == id) | of_runs))
            traces = (reservations.c.key >= f"quota {id}") & (reservations.c.key < f"quota {id}0")
            connection.execute(delete(reservations).where(traces))
            self._notifications.send(connection, id)
            # Its values and texts are deleted with it: their rows refer to it.
            return bool(connection.execute(delete(sessions).where(sessions.c.id == id)).rowcount)

        is_deleted = await self._writer.write(write, act)
        await self._parts.sweep_freed()
        return is_deleted


def _insert(connection: Connection, row: SessionRow) -> None:
    try:
        connection.execute(insert(sessions).values(asdict(row)))
    except IntegrityError as error:
        raise StoreError(f"there is a session {row.id!r} already") from error


class SqlEvents:
    """The events. They refer to their session and are deleted with it, by any process."""

    def __init__(self, writer: Writer, reader: ReadConnections, notifications: Notifications) -> None:
        self._writer = writer
        self._reader = reader
        self._notifications = notifications

    async def begin(self, turn: TurnRow, started: NewEvent, *, now: str, interrupted: NewEvent) -> Begun:
        """Begin a turn with its first event, or return the turn that the session is in already."""

        def write(connection: Connection) -> Begun:
            _require(connection, turn.session, "turn")
            _interrupt(connection, turn.session, now, interrupted)
            if (there := _turn(connection, turn.session)) is not None:
                return Begun(there.turn, _last(connection, turn.session))
            connection.execute(insert(session_turns).values(asdict(turn)))
            self._notifications.send(connection, turn.session)
            return Begun(turn.turn, _put(connection, turn.session, turn.turn, [started], now))

        return await self._writer.write(write)

    async def append(self, session: str, turn: str, events: Sequence[NewEvent], *, now: str, until: str | None) -> int:
        """Store events of a turn, extend it ``until`` then or end it with ``None``; return the last event's number."""

        def write(connection: Connection) -> int:
            there = _turn(connection, session)
            if there is None or there.turn != turn:
                _require(connection, session, "turn")
                raise over(turn)
            own = session_turns.c.session == session
            held = delete(session_turns) if until is None else update(session_turns).values(until=until)
            connection.execute(held.where(own))
            if events or until is None:
                self._notifications.send(connection, session)
            return _put(connection, session, turn, events, now)

        return await self._writer.write(write)

    async def interrupt(self, session: str, *, now: str, interrupted: NewEvent) -> bool:
        """End an expired turn with the event ``interrupted``, and return whether there was one."""

        def write(connection: Connection) -> bool:
            if not _interrupt(connection, session, now, interrupted):
                return False
            self._notifications.send(connection, session)
            return True

        return await self._writer.write(write)

    async def latest(self, sessions: Collection[str]) -> Mapping[str, int]:
        """Return the numbers of the last events of existing sessions."""
        return await self._reader.read(lambda connection: _latest(connection, sessions))

    @asynccontextmanager
    async def listening(self, heard: Heard) -> AsyncGenerator[Callable[[], bool]]:
        """Listen to the notifications of all processes, if the engine has any."""
        _ = self._reader.opened
        async with self._notifications.listening(heard) as arrives:
            yield arrives

    async def read(self, session: str, *, after: int, limit: int) -> EventPage:
        """Return the events whose numbers are greater than ``after``, at most ``limit`` of them."""
        of_session, seq = session_events.c.session == session, session_events.c.seq
        asked = select(session_events).where(of_session, seq > after).order_by(seq).limit(limit)

        def read(connection: Connection) -> EventPage:
            items = tuple(EventRow(**row) for row in connection.execute(asked).mappings())
            if not items:
                _require(connection, session, "event")
            return EventPage(items, _last(connection, session), _turn(connection, session))

        return await self._reader.read(read)


def _require(connection: Connection, session: str, what: str) -> None:
    if connection.execute(select(sessions.c.id).where(sessions.c.id == session)).first() is None:
        raise gone(what)


def _turn(connection: Connection, session: str) -> TurnRow | None:
    asked = select(session_turns).where(session_turns.c.session == session)
    found = connection.execute(asked).mappings().one_or_none()
    return TurnRow(**found) if found else None


def _latest(connection: Connection, wanted: Collection[str]) -> dict[str, int]:
    # A look-up for each: grouping would read every event of every session.
    last = select(func.max(session_events.c.seq)).where(session_events.c.session == sessions.c.id).scalar_subquery()
    found: dict[str, int] = {}
    ids = [one for one in wanted if can_be(one)]
    for start in range(0, len(ids), _NAMED):
        some = sessions.c.id.in_(ids[start : start + _NAMED])
        found.update((one, number or 0) for one, number in connection.execute(select(sessions.c.id, last).where(some)))
    return found


def _last(connection: Connection, session: str) -> int:
    asked = select(func.max(session_events.c.seq)).where(session_events.c.session == session)
    return connection.execute(asked).scalar_one() or 0


def _interrupt(connection: Connection, session: str, now: str, interrupted: NewEvent) -> bool:
    there = _turn(connection, session)
    if there is None or there.until > now:
        return False
    connection.execute(delete(session_turns).where(session_turns.c.session == session))
    _put(connection, session, there.turn, [interrupted], now)
    return True


def _put(connection: Connection, session: str, turn: str, events: Sequence[NewEvent], now: str) -> int:
    last = _last(connection, session)
    new = [
        EventRow(session, last + number, turn, one.type, storable(one.data, "the event"), now)
        for number, one in enumerate(events, 1)
    ]
    if not new:
        return last
    connection.execute(insert(session_events), [asdict(row) for row in new])
    last = new[-1].seq
    own = session_events.c.session == session
    connection.execute(delete(session_events).where(own, session_events.c.seq <= last - KEPT))
    return last
