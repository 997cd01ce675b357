"""Sessions' turns and events: a row each, written in the writer's transactions, so that numbers have no gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection, delete, func, insert, select, update

from capset.stores.base import KEPT, Begun, EventPage, EventRow, NewEvent, TurnRow
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import session_events, session_turns, sessions
from capset.stores.sql.writer.writer import Writer
from capset.stores.texts import gone, over, storable


class SqlEvents:
    """The events. They refer to their session and are deleted with it, by any process."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def begin(self, turn: TurnRow, started: NewEvent, *, now: str, interrupted: NewEvent) -> Begun:
        """Begin a turn with its first event, or return the turn that the session is in already."""

        def write(connection: Connection) -> Begun:
            _require(connection, turn.session, "turn")
            _interrupt(connection, turn.session, now, interrupted)
            if (there := _turn(connection, turn.session)) is not None:
                return Begun(there.turn, _last(connection, turn.session))
            connection.execute(insert(session_turns).values(asdict(turn)))
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
            return _put(connection, session, turn, events, now)

        return await self._writer.write(write)

    async def interrupt(self, session: str, *, now: str, interrupted: NewEvent) -> bool:
        """End an expired turn with the event ``interrupted``, and return whether there was one."""
        return await self._writer.write(lambda connection: _interrupt(connection, session, now, interrupted))

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
