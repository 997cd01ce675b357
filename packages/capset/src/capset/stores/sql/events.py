"""The turns of sessions in SQL, with their events and messages, and notifications to other processes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, fields
from typing import Any, Final, Protocol

from sqlalchemy import Connection, Table, Text, bindparam, case, delete, func, insert, literal, select, true, update

from capset.errors import StateError
from capset.stores.base import (
    MAX_EVENTS,
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
    TurnRow,
)
from capset.stores.rows import are_storable
from capset.stores.sql.inserts import MAX_BATCH, batches, insert_rows
from capset.stores.sql.reader import ReadConnections, read_rows
from capset.stores.sql.runs import add_run, is_run_queued, update_run_state
from capset.stores.sql.schema.tables import session_events, session_messages, session_turns, sessions
from capset.stores.sql.writer.writer import Writer
from capset.stores.texts import ended_turn_error, missing_session_error, running_turn_error, storable

_EVENT_FIELDS: Final = tuple(field.name for field in fields(EventRow))
_EVENT_COLUMNS: Final = ", ".join(_EVENT_FIELDS)
_TURN_FIELDS: Final = tuple(field.name for field in fields(TurnRow))
_MESSAGE_FIELDS: Final = tuple(field.name for field in fields(MessageRow))
_SESSION: Final = bindparam("of_session", type_=Text)
_HELD_TURN: Final = (
    (session_turns.c.session == _SESSION)
    & (session_turns.c.turn == bindparam("of_turn"))
    & (session_turns.c.holder == bindparam("of_holder"))
)
# Built once: a running turn uses these with every batch, and building a statement takes as long as running it.
_RENEWAL: Final[dict[str, Any]] = {"holder": bindparam("new_holder"), "until": bindparam("new_until")}
_RENEW: Final = update(session_turns).where(_HELD_TURN).values(_RENEWAL)
_CHANGE: Final = update(session_turns).where(_HELD_TURN).values({**_RENEWAL, "checkpoint": bindparam("new_checkpoint")})
_BEGIN: Final = insert(session_turns)
_END: Final = delete(session_turns).where(_HELD_TURN)
_SESSION_EXISTS: Final = select(sessions.c.id).where(sessions.c.id == _SESSION)
_CURRENT_TURN: Final = select(session_turns).where(session_turns.c.session == _SESSION)
_LAST_EVENT: Final = select(func.max(session_events.c.seq)).where(session_events.c.session == _SESSION)
_LAST_MESSAGE: Final = select(func.max(session_messages.c.seq)).where(session_messages.c.session == _SESSION)
_LAST_OF_BOTH: Final = select(_LAST_EVENT.scalar_subquery(), _LAST_MESSAGE.scalar_subquery())
_NEW_EVENTS: Final = (
    select(session_events)
    .where(session_events.c.session == _SESSION, session_events.c.seq > bindparam("after"))
    .order_by(session_events.c.seq)
    .limit(bindparam("most"))
    .subquery()
)
_FIRST_NEW_EVENT: Final = (
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
        case((_NEW_EVENTS.c.seq.is_(None) | (_NEW_EVENTS.c.seq == _FIRST_NEW_EVENT), session_turns.c.checkpoint)).label(
            "turn_checkpoint"
        ),
        _NEW_EVENTS,
    )
    .select_from(sessions)
    .outerjoin(session_turns, session_turns.c.session == sessions.c.id)
    .outerjoin(_NEW_EVENTS, true())
    .where(sessions.c.id == _SESSION)
)


class Notifications(Protocol):
    """An engine's notifications to other processes."""

    def send(self, connection: Connection, session: str) -> None:
        """Notify every other listening process that a session's events changed, once the change is committed."""
        ...

    def subscribe(self, on_notice: NoticeCallback) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """Call ``on_notice`` on the event loop inside the context. Yield a function that returns whether this works."""
        ...


class NoNotifications:
    """For engines without notifications."""

    def send(self, connection: Connection, session: str) -> None:
        """Do nothing: other processes poll."""

    @asynccontextmanager
    async def subscribe(self, on_notice: NoticeCallback) -> AsyncGenerator[Callable[[], bool]]:
        """Yield a function that returns false: there are no notifications."""
        yield lambda: False


class SqlEvents:
    """The turns, events and messages. They refer to their session and are deleted with it by the database."""

    def __init__(self, writer: Writer, reader: ReadConnections, notifications: Notifications) -> None:
        self._writer = writer
        self._reader = reader
        self._notifications = notifications

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
        def write(connection: Connection) -> Begun:
            _require_session(connection, turn.session, "turn")
            if is_queued and not is_run_queued(connection, turn.turn):
                raise ended_turn_error(turn.turn)
            current = _turn(connection, turn.session)
            if current is not None and not _interrupt(connection, current, now, interrupted):
                return Begun(current.turn, _last_event(connection, turn.session))
            if run is not None:
                add_run(connection, run)
            connection.execute(_BEGIN, asdict(turn))
            self._notifications.send(connection, turn.session)
            last = _last_event(connection, turn.session)
            return Begun(turn.turn, _insert_events(connection, turn.session, turn.turn, [started], now, after=last))

        return await self._writer.write(write)

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
        values: dict[str, str | None] = {"of_session": session, "of_turn": held.turn, "of_holder": held.holder}
        changed = _END
        if then is not None:
            values |= {f"new_{name}": value for name, value in _state(then, held).items()}
            changed = _CHANGE if "new_checkpoint" in values else _RENEW

        def write(connection: Connection) -> int:
            if not connection.execute(changed, values).rowcount:
                _require_session(connection, session, "turn")
                raise ended_turn_error(held.turn)
            if events or then is None:
                self._notifications.send(connection, session)
            last, last_message = connection.execute(_LAST_OF_BOTH, {"of_session": session}).one()
            _insert_messages(connection, held, messages, now, after=last_message or 0)
            return _insert_events(connection, session, held.turn, events, now, after=last or 0, usage=usage)

        return await self._writer.write(write)

    async def take(self, previous: TurnRow, then: TurnRow) -> bool:
        same = (session_turns.c.session == previous.session) & (session_turns.c.turn == previous.turn)
        same &= (session_turns.c.holder == previous.holder) & (session_turns.c.until == previous.until)
        statement = update(session_turns).where(same).values(_state(then, previous))
        return await self._writer.write(lambda connection: bool(connection.execute(statement).rowcount))

    async def due(self, now: str, *, limit: int = 100) -> Sequence[TurnRow]:
        statement = (
            select(session_turns)
            .where(session_turns.c.until <= now, session_turns.c.checkpoint.is_not(None))
            .order_by(session_turns.c.until)
            .limit(limit)
        )
        return await self._reader.read_all(statement, lambda row: TurnRow(**row))

    async def interrupt(self, session: str, *, now: str, interrupted: NewEvent) -> bool:
        def write(connection: Connection) -> bool:
            current = _turn(connection, session)
            if current is None or not _interrupt(connection, current, now, interrupted):
                return False
            self._notifications.send(connection, session)
            return True

        return await self._writer.write(write)

    async def latest(self, sessions: Collection[str]) -> Mapping[str, int]:
        is_one_statement = len(sessions) <= MAX_BATCH
        return await self._reader.read(
            lambda connection: _last_events(connection, sessions), is_one_statement=is_one_statement
        )

    @asynccontextmanager
    async def subscribe(self, on_notice: NoticeCallback) -> AsyncGenerator[Callable[[], bool]]:
        """Listen to notifications of other processes, if the engine has any; see ``ChangeFeed.subscribe``."""
        _ = self._reader.opened
        async with self._notifications.subscribe(on_notice) as arrives:
            yield arrives

    async def read(self, session: str, *, after: int, limit: int) -> EventPage:
        values = {"of_session": session, "after": after, "most": limit}

        def read(connection: Connection) -> EventPage:
            rows = sorted(connection.execute(_PAGE, values).mappings(), key=lambda row: row["seq"] or 0)
            if not rows:
                raise missing_session_error("event")
            first = rows[0]
            items = tuple([EventRow(**{name: row[name] for name in _EVENT_FIELDS}) for row in rows])
            turn = TurnRow(**{name: first[f"turn_{name}"] for name in _TURN_FIELDS})
            return EventPage(
                items if first["seq"] is not None else (), first["last"] or 0, turn if first["turn_turn"] else None
            )

        return await self._reader.read(read, is_one_statement=True)

    async def event_span(self, session: str, turn: str) -> tuple[int, int] | None:
        return await self._span(session_events, session, turn)

    async def messages(
        self, session: str, *, after: int | None = 0, limit: int = 1_000, max_bytes: int | None = None
    ) -> MessagePage:
        of_session, seq = session_messages.c.session == session, session_messages.c.seq
        summary = select(func.max(seq)).where(of_session, session_messages.c.kind == "summary").scalar_subquery()
        statement = select(*[session_messages.c[name] for name in _MESSAGE_FIELDS]).where(
            of_session, seq > (func.coalesce(summary - 1, 0) if after is None else after)
        )
        statement = statement.order_by(seq)
        totals = select(func.count(), func.coalesce(func.sum(session_messages.c.size), 0)).where(of_session)

        def read(connection: Connection) -> MessagePage:
            rows, _ = read_rows(connection, statement, limit, max_bytes)
            if not rows:
                _require_session(connection, session, "message")
            count, size = connection.execute(totals).one()
            return MessagePage(tuple([MessageRow(**row) for row in rows]), count, int(size))

        return await self._reader.read(read)

    async def span(self, session: str, turn: str) -> tuple[int, int] | None:
        return await self._span(session_messages, session, turn)

    async def _span(self, table: Table, session: str, turn: str) -> tuple[int, int] | None:
        seq = table.c.seq
        statement = select(func.min(seq), func.max(seq)).where(table.c.session == session, table.c.turn == turn)

        def read(connection: Connection) -> tuple[int, int] | None:
            first, last = connection.execute(statement).one()
            return None if first is None else (first, last)

        return await self._reader.read(read, is_one_statement=True)

    async def rewind(self, session: str, *, to: int, act: Entry | None = None) -> int:
        deletion = delete(session_messages).where(session_messages.c.session == session, session_messages.c.seq > to)

        def write(connection: Connection) -> int:
            _require_session(connection, session, "message")
            if (current := _turn(connection, session)) is not None:
                raise running_turn_error(current.turn)
            return connection.execute(deletion).rowcount

        return await self._writer.write(write, act)

    async def copy(self, source: str, target: str, *, to: int) -> int:
        columns = [column for column in session_messages.c if column.name != "session"]
        statement = select(literal(target), *columns).where(
            session_messages.c.session == source, session_messages.c.seq <= to
        )
        copied = insert(session_messages).from_select(["session", *(column.name for column in columns)], statement)

        def write(connection: Connection) -> int:
            for session in (source, target):
                _require_session(connection, session, "message")
            if _last_message(connection, target):
                raise StateError(f"the session {target!r} already has a conversation", status=409)
            connection.execute(copied)
            return _last_message(connection, target)

        return await self._writer.write(write)


def _state(turn: TurnRow, before: TurnRow) -> dict[str, str | None]:
    """Return the columns of a turn to update. Most renewals leave the checkpoint unchanged, and it may be large."""
    state: dict[str, str | None] = {"holder": turn.holder, "until": turn.until}
    return state if turn.checkpoint == before.checkpoint else {**state, "checkpoint": turn.checkpoint}


def _require_session(connection: Connection, session: str, kind: str) -> None:
    if connection.execute(_SESSION_EXISTS, {"of_session": session}).first() is None:
        raise missing_session_error(kind)


def _turn(connection: Connection, session: str) -> TurnRow | None:
    row = connection.execute(_CURRENT_TURN, {"of_session": session}).mappings().one_or_none()
    return TurnRow(**row) if row else None


def _last_events(connection: Connection, session_ids: Collection[str]) -> dict[str, int]:
    # One lookup per session: grouping would read every event of every session.
    last = select(func.max(session_events.c.seq)).where(session_events.c.session == sessions.c.id).scalar_subquery()
    latest: dict[str, int] = {}
    ids = [session_id for session_id in session_ids if are_storable(session_id)]
    for batch in batches(ids):
        rows = connection.execute(select(sessions.c.id, last).where(sessions.c.id.in_(batch)))
        latest.update((session_id, number or 0) for session_id, number in rows)
    return latest


def _last_event(connection: Connection, session: str) -> int:
    return connection.execute(_LAST_EVENT, {"of_session": session}).scalar_one() or 0


def _interrupt(connection: Connection, current: TurnRow, now: str, interrupted: NewEvent) -> bool:
    """End a turn if it has expired and has no checkpoint; return whether it was ended."""
    if current.until > now or current.checkpoint is not None:
        return False
    session = current.session
    connection.execute(delete(session_turns).where(session_turns.c.session == session))
    _insert_events(connection, session, current.turn, [interrupted], now, after=_last_event(connection, session))
    return True


def _insert_events(
    connection: Connection,
    session: str,
    turn: str,
    events: Sequence[NewEvent],
    now: str,
    *,
    after: int,
    usage: str | None = None,
) -> int:
    if not events:
        return after
    new = [
        (session, number, turn, event.type, storable(event.data, "the event"), now)
        for number, event in enumerate(events, after + 1)
    ]
    insert_rows(connection, session_events.name, _EVENT_COLUMNS, new)
    update_run_state(connection, turn, events, now, usage)
    last = after + len(new)
    if last > MAX_EVENTS:
        of_session = session_events.c.session == session
        connection.execute(delete(session_events).where(of_session, session_events.c.seq <= last - MAX_EVENTS))
    return last


def _last_message(connection: Connection, session: str) -> int:
    return connection.execute(_LAST_MESSAGE, {"of_session": session}).scalar_one() or 0


def _insert_messages(
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
    insert_rows(connection, session_messages.name, f"{', '.join(_MESSAGE_FIELDS)}, size", new)
