"""The turns of sessions in SQL, with their events and messages, and notifications to other processes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, fields
from typing import Any, Final, Protocol

from sqlalchemy import Connection, Text, bindparam, case, delete, func, insert, literal, select, true, update

from capset.errors import StateError
from capset.stores.base import (
    KEPT,
    Begun,
    Entry,
    EventPage,
    EventRow,
    MessagePage,
    MessageRow,
    NewEvent,
    NewMessage,
    TurnRow,
)
from capset.stores.rows import can_be
from capset.stores.sql.inserts import insert_rows
from capset.stores.sql.reader import ReadConnections, read_rows
from capset.stores.sql.runs import begins, follow
from capset.stores.sql.schema.tables import session_events, session_messages, session_turns, sessions
from capset.stores.sql.writer.writer import Writer
from capset.stores.texts import busy, gone, over, storable

_NAMED: Final = 1_000
"""Number of ids per statement."""
_EVENT_FIELDS: Final = tuple(field.name for field in fields(EventRow))
_EVENT: Final = ", ".join(_EVENT_FIELDS)
_TURN_FIELDS: Final = tuple(field.name for field in fields(TurnRow))
_MESSAGE: Final = tuple(field.name for field in fields(MessageRow))
_SESSION: Final = bindparam("of_session", type_=Text)
_HELD: Final = (
    (session_turns.c.session == _SESSION)
    & (session_turns.c.turn == bindparam("of_turn"))
    & (session_turns.c.holder == bindparam("of_holder"))
)
# Built once: a running turn uses these with every batch, and building a statement takes as long as running it.
_RENEWAL: Final[dict[str, Any]] = {"holder": bindparam("new_holder"), "until": bindparam("new_until")}
_RENEW: Final = update(session_turns).where(_HELD).values(_RENEWAL)
_CHANGE: Final = update(session_turns).where(_HELD).values({**_RENEWAL, "checkpoint": bindparam("new_checkpoint")})
_BEGIN: Final = insert(session_turns)
_END: Final = delete(session_turns).where(_HELD)
_THERE: Final = select(sessions.c.id).where(sessions.c.id == _SESSION)
_TURN: Final = select(session_turns).where(session_turns.c.session == _SESSION)
_LAST_EVENT: Final = select(func.max(session_events.c.seq)).where(session_events.c.session == _SESSION)
_LAST_MESSAGE: Final = select(func.max(session_messages.c.seq)).where(session_messages.c.session == _SESSION)
_LAST_OF_BOTH: Final = select(_LAST_EVENT.scalar_subquery(), _LAST_MESSAGE.scalar_subquery())
_AFTER: Final = (
    select(session_events)
    .where(session_events.c.session == _SESSION, session_events.c.seq > bindparam("after"))
    .order_by(session_events.c.seq)
    .limit(bindparam("most"))
    .subquery()
)
_FIRST: Final = (
    select(func.min(session_events.c.seq))
    .where(session_events.c.session == _SESSION, session_events.c.seq > bindparam("after"))
    .scalar_subquery()
)
# A single statement, since every follower of a session reads every event. It returns the events in no order. Each row
# also has the number of the last event and the turn. The turn's checkpoint may be long, so only the first event's row
# has it. A session without new events yields one row.
_PAGE: Final = (
    select(
        _LAST_EVENT.scalar_subquery().label("last"),
        *(session_turns.c[name].label(f"turn_{name}") for name in ("session", "turn", "holder", "until")),
        case((_AFTER.c.seq.is_(None) | (_AFTER.c.seq == _FIRST), session_turns.c.checkpoint)).label("turn_checkpoint"),
        _AFTER,
    )
    .select_from(sessions)
    .outerjoin(session_turns, session_turns.c.session == sessions.c.id)
    .outerjoin(_AFTER, true())
    .where(sessions.c.id == _SESSION)
)


Heard = Callable[[str | None], None]
"""Called with a session's id, or with ``None`` if notifications may have been missed."""


class Notifications(Protocol):
    """An engine's notifications to other processes."""

    def send(self, connection: Connection, session: str) -> None:
        """Notify every other listening process that a session's events changed, once the change is committed."""
        ...

    def listening(self, heard: Heard) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """Call ``heard`` on the event loop inside the context. Yield a function that returns whether this works now."""
        ...


class NoNotifications:
    """For engines without notifications."""

    def send(self, connection: Connection, session: str) -> None:
        """Do nothing: other processes poll."""

    @asynccontextmanager
    async def listening(self, heard: Heard) -> AsyncGenerator[Callable[[], bool]]:
        """Yield a function that returns false: there are no notifications."""
        yield lambda: False


class SqlEvents:
    """The turns, events and messages. They refer to their session and are deleted with it by the database."""

    def __init__(self, writer: Writer, reader: ReadConnections, notifications: Notifications) -> None:
        self._writer = writer
        self._reader = reader
        self._notifications = notifications

    async def begin(
        self, turn: TurnRow, started: NewEvent, *, now: str, interrupted: NewEvent, is_run: bool = False
    ) -> Begun:
        """Begin a turn with its first event, or return the session's current turn."""

        def write(connection: Connection) -> Begun:
            _require(connection, turn.session, "turn")
            if is_run and not begins(connection, turn.turn):
                raise over(turn.turn)
            current = _turn(connection, turn.session)
            if current is not None and not _interrupt(connection, current, now, interrupted):
                return Begun(current.turn, _last(connection, turn.session))
            connection.execute(_BEGIN, asdict(turn))
            self._notifications.send(connection, turn.session)
            last = _last(connection, turn.session)
            return Begun(turn.turn, _put(connection, turn.session, turn.turn, [started], now, after=last))

        return await self._writer.write(write)

    async def append(
        self,
        held: TurnRow,
        events: Sequence[NewEvent],
        *,
        now: str,
        then: TurnRow | None,
        messages: Sequence[NewMessage] = (),
    ) -> int:
        """Store a turn's events, messages and new state; return the number of the last event."""
        session = held.session
        values: dict[str, str | None] = {"of_session": session, "of_turn": held.turn, "of_holder": held.holder}
        changed = _END
        if then is not None:
            values |= {f"new_{name}": value for name, value in _state(then, held).items()}
            changed = _CHANGE if "new_checkpoint" in values else _RENEW

        def write(connection: Connection) -> int:
            if not connection.execute(changed, values).rowcount:
                _require(connection, session, "turn")
                raise over(held.turn)
            if events or then is None:
                self._notifications.send(connection, session)
            last, last_message = connection.execute(_LAST_OF_BOTH, {"of_session": session}).one()
            _put_messages(connection, held, messages, now, after=last_message or 0)
            return _put(connection, session, held.turn, events, now, after=last or 0)

        return await self._writer.write(write)

    async def take(self, previous: TurnRow, then: TurnRow) -> bool:
        """Update a turn if its holder and time are unchanged since ``previous``; return whether they were."""
        same = (session_turns.c.session == previous.session) & (session_turns.c.turn == previous.turn)
        same &= (session_turns.c.holder == previous.holder) & (session_turns.c.until == previous.until)
        taken = update(session_turns).where(same).values(_state(then, previous))
        return await self._writer.write(lambda connection: bool(connection.execute(taken).rowcount))

    async def due(self, now: str, *, limit: int = 100) -> Sequence[TurnRow]:
        """Return expired turns that have a checkpoint, longest expired first."""
        statement = (
            select(session_turns)
            .where(session_turns.c.until <= now, session_turns.c.checkpoint.is_not(None))
            .order_by(session_turns.c.until)
            .limit(limit)
        )

        def read(connection: Connection) -> Sequence[TurnRow]:
            return [TurnRow(**row) for row in connection.execute(statement).mappings()]

        return await self._reader.read(read, is_one_statement=True)

    async def interrupt(self, session: str, *, now: str, interrupted: NewEvent) -> bool:
        """End an expired turn that has no checkpoint, with the event ``interrupted``; return whether there was one."""

        def write(connection: Connection) -> bool:
            current = _turn(connection, session)
            if current is None or not _interrupt(connection, current, now, interrupted):
                return False
            self._notifications.send(connection, session)
            return True

        return await self._writer.write(write)

    async def latest(self, sessions: Collection[str]) -> Mapping[str, int]:
        """Return the number of the last event of each existing session."""
        is_one = len(sessions) <= _NAMED
        return await self._reader.read(lambda connection: _latest(connection, sessions), is_one_statement=is_one)

    @asynccontextmanager
    async def listening(self, heard: Heard) -> AsyncGenerator[Callable[[], bool]]:
        """Listen to notifications of other processes, if the engine has any."""
        _ = self._reader.opened
        async with self._notifications.listening(heard) as arrives:
            yield arrives

    async def read(self, session: str, *, after: int, limit: int) -> EventPage:
        """Return up to ``limit`` events with numbers greater than ``after``."""
        values = {"of_session": session, "after": after, "most": limit}

        def read(connection: Connection) -> EventPage:
            rows = sorted(connection.execute(_PAGE, values).mappings(), key=lambda row: row["seq"] or 0)
            if not rows:
                raise gone("event")
            first = rows[0]
            items = tuple([EventRow(**{name: row[name] for name in _EVENT_FIELDS}) for row in rows])
            turn = TurnRow(**{name: first[f"turn_{name}"] for name in _TURN_FIELDS})
            return EventPage(
                items if first["seq"] is not None else (), first["last"] or 0, turn if first["turn_turn"] else None
            )

        return await self._reader.read(read, is_one_statement=True)

    async def messages(
        self, session: str, *, after: int | None = 0, limit: int = 1_000, max_bytes: int | None = None
    ) -> MessagePage:
        """Return up to ``limit`` messages with numbers greater than ``after``."""
        of_session, columns = session_messages.c.session == session, [session_messages.c[name] for name in _MESSAGE]
        seq = session_messages.c.seq
        summary = select(func.max(seq)).where(of_session, session_messages.c.kind == "summary").scalar_subquery()
        statement = select(*columns).where(
            of_session, seq > func.coalesce(summary - 1, 0) if after is None else seq > after
        )
        statement = statement.order_by(seq)
        weighed = select(func.count(), func.coalesce(func.sum(session_messages.c.size), 0)).where(of_session)

        def read(connection: Connection) -> MessagePage:
            rows, _ = read_rows(connection, statement, limit, max_bytes)
            if not rows:
                _require(connection, session, "message")
            count, size = connection.execute(weighed).one()
            return MessagePage(tuple([MessageRow(**row) for row in rows]), count, int(size))

        return await self._reader.read(read)

    async def span(self, session: str, turn: str) -> tuple[int, int] | None:
        """Return the numbers of a turn's first and last message, or ``None`` if it has no messages."""
        seq = session_messages.c.seq
        statement = select(func.min(seq), func.max(seq)).where(
            session_messages.c.session == session, session_messages.c.turn == turn
        )

        def read(connection: Connection) -> tuple[int, int] | None:
            first, last = connection.execute(statement).one()
            return None if first is None else (first, last)

        return await self._reader.read(read, is_one_statement=True)

    async def rewind(self, session: str, *, to: int, act: Entry | None = None) -> int:
        """Delete the messages with numbers greater than ``to``, and return their count."""
        cut = delete(session_messages).where(session_messages.c.session == session, session_messages.c.seq > to)

        def write(connection: Connection) -> int:
            _require(connection, session, "message")
            if (current := _turn(connection, session)) is not None:
                raise busy(current.turn)
            return connection.execute(cut).rowcount

        return await self._writer.write(write, act)

    async def copy(self, source: str, target: str, *, to: int) -> int:
        """Copy a session's messages up to number ``to`` into a session without messages; return their count."""
        columns = [column for column in session_messages.c if column.name != "session"]
        statement = select(literal(target), *columns).where(
            session_messages.c.session == source, session_messages.c.seq <= to
        )
        copied = insert(session_messages).from_select(["session", *(column.name for column in columns)], statement)

        def write(connection: Connection) -> int:
            for session in (source, target):
                _require(connection, session, "message")
            if _last_message(connection, target):
                raise StateError(f"the session {target!r} already has a conversation", status=409)
            connection.execute(copied)
            return _last_message(connection, target)

        return await self._writer.write(write)


def _state(turn: TurnRow, before: TurnRow) -> dict[str, str | None]:
    """Return the columns of a turn to update. Most renewals leave the checkpoint unchanged, and it may be large."""
    state: dict[str, str | None] = {"holder": turn.holder, "until": turn.until}
    return state if turn.checkpoint == before.checkpoint else {**state, "checkpoint": turn.checkpoint}


def _require(connection: Connection, session: str, kind: str) -> None:
    if connection.execute(_THERE, {"of_session": session}).first() is None:
        raise gone(kind)


def _turn(connection: Connection, session: str) -> TurnRow | None:
    row = connection.execute(_TURN, {"of_session": session}).mappings().one_or_none()
    return TurnRow(**row) if row else None


def _latest(connection: Connection, session_ids: Collection[str]) -> dict[str, int]:
    # One lookup per session: grouping would read every event of every session.
    last = select(func.max(session_events.c.seq)).where(session_events.c.session == sessions.c.id).scalar_subquery()
    latest: dict[str, int] = {}
    ids = [session_id for session_id in session_ids if can_be(session_id)]
    for start in range(0, len(ids), _NAMED):
        some = sessions.c.id.in_(ids[start : start + _NAMED])
        latest.update(
            (session_id, number or 0)
            for session_id, number in connection.execute(select(sessions.c.id, last).where(some))
        )
    return latest


def _last(connection: Connection, session: str) -> int:
    return connection.execute(_LAST_EVENT, {"of_session": session}).scalar_one() or 0


def _interrupt(connection: Connection, current: TurnRow, now: str, interrupted: NewEvent) -> bool:
    """End a turn if it has expired and has no checkpoint; return whether it was ended."""
    if current.until > now or current.checkpoint is not None:
        return False
    session = current.session
    connection.execute(delete(session_turns).where(session_turns.c.session == session))
    _put(connection, session, current.turn, [interrupted], now, after=_last(connection, session))
    return True


def _put(connection: Connection, session: str, turn: str, events: Sequence[NewEvent], now: str, *, after: int) -> int:
    if not events:
        return after
    new = [
        (session, number, turn, event.type, storable(event.data, "the event"), now)
        for number, event in enumerate(events, after + 1)
    ]
    insert_rows(connection, session_events.name, _EVENT, new)
    follow(connection, turn, events, now)
    last = after + len(new)
    if last > KEPT:
        of_session = session_events.c.session == session
        connection.execute(delete(session_events).where(of_session, session_events.c.seq <= last - KEPT))
    return last


def _last_message(connection: Connection, session: str) -> int:
    return connection.execute(_LAST_MESSAGE, {"of_session": session}).scalar_one() or 0


def _put_messages(
    connection: Connection, turn: TurnRow, messages: Sequence[NewMessage], now: str, *, after: int
) -> None:
    if not messages:
        return
    new = [
        (
            turn.session,
            number,
            turn.turn,
            message.kind,
            storable(message.data, "the message"),
            now,
            len(message.data.encode()),
        )
        for number, message in enumerate(messages, after + 1)
    ]
    insert_rows(connection, session_messages.name, f"{', '.join(_MESSAGE)}, size", new)
