"""Runs and workers in SQL, one row each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, cast

from sqlalchemy import (
    Connection,
    RowMapping,
    Select,
    Text,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from capset.errors import StoreError
from capset.stores.base import (
    NewEvent,
    Page,
    RunQuery,
    RunRow,
    WorkerRow,
)
from capset.stores.base.runs import STATE_AFTER, UNFINISHED, RunsFull
from capset.stores.sql.reader import ReadConnections, read_rows
from capset.stores.sql.schema.run_tables import runs, workers
from capset.stores.sql.schema.tables import approvals, sessions
from capset.stores.sql.writer.writer import Writer
from capset.stores.texts import gone, storable

_OF_TURN: Final = runs.c.id == bindparam("of_turn")
_NOW: Final = bindparam("now", type_=Text)
# Built once: every turn ends with one of these.
_FOLLOW: Final = {
    "running": update(runs)
    .where(_OF_TURN)
    .values(
        state="running",
        due_at=case((runs.c.state.in_(("queued", "running")), runs.c.due_at), else_=_NOW),
        begun_at=func.coalesce(runs.c.begun_at, _NOW),
        ended_at=None,
        outcome=None,
    ),
    "waiting": update(runs).where(_OF_TURN).values(state="waiting", due_at=None, attempts=runs.c.attempts + 1),
}
_END: Final = (
    update(runs)
    .where(_OF_TURN)
    .values(state=bindparam("new_state"), due_at=None, ended_at=_NOW, outcome=bindparam("new_outcome"))
)


class SqlRuns:
    """The runs. They refer to their session and are deleted with it."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def add(self, row: RunRow, *, most: int | None = None) -> None:
        """Store a new run."""
        await self._writer.write(lambda connection: add_run(connection, row, most=most))

    async def get(self, id: str) -> RunRow | None:
        """Return a run, or ``None``."""

        def read(connection: Connection) -> RunRow | None:
            row = connection.execute(select(runs).where(runs.c.id == id)).mappings().one_or_none()
            return None if row is None else _run(row)

        return await self._reader.read(read)

    async def list(self, query: RunQuery) -> Page[RunRow]:
        """Return runs, newest first."""
        statement = select(runs).where(runs.c.org == (query.org or "")).order_by(runs.c.id.desc())
        for name in ("principal", "principal_kind", "state", "queue"):
            if (value := getattr(query, name)) is not None:
                statement = statement.where(runs.c[name] == value)
        if query.before is not None:
            statement = statement.where(runs.c.id < query.before)

        def read(connection: Connection) -> Page[RunRow]:
            rows, has_more = read_rows(connection, statement, query.limit, query.max_bytes)
            items = tuple([_run(row) for row in rows])
            return Page(items, items[-1].id if has_more else None)

        return await self._reader.read(read)

    async def due(self, queue: str, *, now: str, limit: int = 100) -> Sequence[RunRow]:
        """Return a queue's queued and running runs that are due for the engine, longest due first."""
        is_due = (runs.c.queue == queue, runs.c.due_at <= now, runs.c.state.in_(("queued", "running")))
        return await self._read(select(runs).where(*is_due).order_by(runs.c.due_at, runs.c.id).limit(limit))

    async def decided(self, queues: Sequence[str], *, now: str, limit: int = 100) -> Sequence[RunRow]:
        """Return the waiting calls in these queues whose approval request is no longer open, oldest first."""
        of_run = (approvals.c.org == runs.c.org) & (approvals.c.id == runs.c.approval)
        is_open = exists().where(of_run, approvals.c.status == "pending", approvals.c.expires_at > now)
        waiting = (runs.c.state == "waiting", runs.c.kind == "call", runs.c.queue.in_(queues))
        return await self._read(select(runs).where(*waiting, ~is_open).order_by(runs.c.id).limit(limit))

    async def change(self, previous: RunRow, then: RunRow) -> bool:
        """Store the fields of ``then`` that differ from ``previous``, if the run's state and attempts are unchanged."""
        same = (runs.c.state == previous.state, runs.c.attempts == previous.attempts)
        changed = {name: value for name, value in _values(then).items() if value != _values(previous)[name]}
        stored = update(runs).where(runs.c.id == previous.id, *same).values(changed | {"state": then.state})
        return await self._writer.write(lambda connection: bool(connection.execute(stored).rowcount))

    async def _read(self, statement: Select[Any]) -> Sequence[RunRow]:
        def read(connection: Connection) -> Sequence[RunRow]:
            return [_run(row) for row in connection.execute(statement).mappings()]

        return await self._reader.read(read)


class SqlWorkers:
    """The workers."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def renew(self, row: WorkerRow) -> None:
        """Store a worker, or extend its lease."""
        renewed = update(workers).where(workers.c.id == row.id).values(until=row.until)
        new = insert(workers).values(asdict(row) | {"queues": json.dumps(row.queues)})

        def write(connection: Connection) -> None:
            if not connection.execute(renewed).rowcount:
                connection.execute(new)

        await self._writer.write(write)

    async def list(self) -> Sequence[WorkerRow]:
        """Return all workers, sorted by id."""
        statement = select(workers).order_by(workers.c.id)

        def read(connection: Connection) -> Sequence[WorkerRow]:
            worker_rows = [WorkerRow(**row) for row in connection.execute(statement).mappings()]
            return [replace(worker, queues=tuple(json.loads(cast("str", worker.queues)))) for worker in worker_rows]

        return await self._reader.read(read)

    async def take(self, previous: WorkerRow, *, until: str) -> bool:
        """Extend a worker's lease to ``until`` if it is unchanged since ``previous``; return whether it was."""
        same = (workers.c.id == previous.id) & (workers.c.until == previous.until)
        taken = update(workers).where(same).values(until=until)
        return await self._writer.write(lambda connection: bool(connection.execute(taken).rowcount))

    async def remove(self, id: str) -> None:
        """Delete a worker."""
        removed = delete(workers).where(workers.c.id == id)
        await self._writer.write(lambda connection: connection.execute(removed))


def add_run(connection: Connection, row: RunRow, *, most: int | None = None) -> None:
    """Store a new run within the current transaction."""
    if connection.execute(select(sessions.c.id).where(sessions.c.id == row.session)).first() is None:
        raise gone("run")
    if most is not None:
        of_org = (runs.c.org == (row.org or "")) & runs.c.state.in_(UNFINISHED)
        if connection.execute(select(func.count()).where(of_org)).scalar_one() >= most:
            raise RunsFull
    try:
        connection.execute(insert(runs).values(_values(row)))
    except IntegrityError as error:
        raise StoreError(f"there is a run {row.id!r} already") from error


def begins(connection: Connection, id: str) -> bool:
    """Return whether a run exists and has not begun yet."""
    return connection.execute(select(runs.c.state).where(runs.c.id == id)).scalar() == "queued"


def follow(connection: Connection, turn: str, events: Sequence[NewEvent], now: str) -> None:
    """Update the state of the run with the id of a turn, if there is one, after new events of the turn."""
    telling = [event for event in events if event.type in STATE_AFTER]
    if not telling:
        return
    state, values = STATE_AFTER[telling[-1].type], {"of_turn": turn}
    if state == "waiting":
        connection.execute(_FOLLOW[state], values)
    elif state == "running":
        connection.execute(_FOLLOW[state], {**values, "now": now})
    else:
        data = storable(telling[-1].data, "the event")
        connection.execute(_END, {**values, "now": now, "new_state": state, "new_outcome": data})


def _values(row: RunRow) -> Mapping[str, Any]:
    return asdict(row) | {"org": row.org or "", "content": storable(row.content, "the message")}


def _run(mapping: RowMapping) -> RunRow:
    row = RunRow(**mapping)
    return replace(row, org=row.org or None)
