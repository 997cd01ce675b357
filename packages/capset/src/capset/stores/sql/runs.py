"""Runs and workers in SQL, one row each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from sqlalchemy import (
    Connection,
    RowMapping,
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

from capset.stores.base import (
    NewEvent,
    Page,
    RunQuery,
    RunRow,
    WorkerRow,
)
from capset.stores.base.runs import STATE_AFTER, UNFINISHED, RunsFull
from capset.stores.pages import filters_of
from capset.stores.rows import changed_values, id_taken_error
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.run_tables import runs, workers
from capset.stores.sql.schema.tables import approvals, sessions
from capset.stores.sql.writer.writer import Writer
from capset.stores.texts import missing_session_error, storable

_OF_TURN: Final = runs.c.id == bindparam("of_turn")
_NOW: Final = bindparam("now", type_=Text)
_USAGE: Final = func.coalesce(bindparam("new_usage", type_=Text), runs.c.usage)
# Built once: every turn ends with one of these.
_STATE_UPDATES: Final = {
    "running": update(runs)
    .where(_OF_TURN)
    .values(
        state="running",
        due_at=case((runs.c.queue.is_(None) | runs.c.state.in_(("queued", "running")), runs.c.due_at), else_=_NOW),
        begun_at=func.coalesce(runs.c.begun_at, _NOW),
        ended_at=None,
        outcome=None,
    ),
    "waiting": update(runs)
    .where(_OF_TURN)
    .values(state="waiting", due_at=None, attempts=runs.c.attempts + 1, usage=_USAGE),
}
_ENDING: Final = (
    update(runs)
    .where(_OF_TURN)
    .values(state=bindparam("new_state"), due_at=None, ended_at=_NOW, outcome=bindparam("new_outcome"), usage=_USAGE)
)


class SqlRuns:
    """The runs. They refer to their session and are deleted with it."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def add(self, row: RunRow, *, max_unfinished: int | None = None) -> None:
        await self._writer.write(lambda connection: add_run(connection, row, max_unfinished=max_unfinished))

    async def get(self, id: str) -> RunRow | None:
        return await self._reader.read_one(select(runs).where(runs.c.id == id), _run)

    async def list(self, query: RunQuery) -> Page[RunRow]:
        filters = filters_of(query, ("principal", "principal_kind", "state", "queue", "session", "agent"))
        statement = select(runs).where(runs.c.org == (query.org or "")).filter_by(**filters)
        if query.principal_kind is not None:
            statement = statement.where(runs.c.on_behalf_of.is_not_distinct_from(query.on_behalf_of))
        if query.since is not None:
            statement = statement.where(runs.c.id >= query.since)
        return await self._reader.read_page(statement, query, _run)

    async def due(self, queue: str, *, now: str, limit: int = 100) -> Sequence[RunRow]:
        is_due = (runs.c.queue == queue, runs.c.due_at <= now, runs.c.state.in_(("queued", "running")))
        statement = select(runs).where(*is_due).order_by(runs.c.due_at, runs.c.id).limit(limit)
        return await self._reader.read_all(statement, _run)

    async def decided(self, queues: Sequence[str], *, now: str, limit: int = 100) -> Sequence[RunRow]:
        of_run = (approvals.c.org == runs.c.org) & (approvals.c.id == runs.c.approval)
        is_open = exists().where(of_run, approvals.c.status == "pending", approvals.c.expires_at > now)
        waiting = (runs.c.state == "waiting", runs.c.kind == "call", runs.c.queue.in_(queues))
        statement = select(runs).where(*waiting, ~is_open).order_by(runs.c.id).limit(limit)
        return await self._reader.read_all(statement, _run)

    async def change(self, previous: RunRow, then: RunRow) -> bool:
        same = (runs.c.state == previous.state, runs.c.attempts == previous.attempts)
        changed = changed_values(_values(previous), _values(then))
        stored = update(runs).where(runs.c.id == previous.id, *same).values(changed | {"state": then.state})
        return await self._writer.write(lambda connection: bool(connection.execute(stored).rowcount))


class SqlWorkers:
    """The workers."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def renew(self, row: WorkerRow) -> None:
        renewed = update(workers).where(workers.c.id == row.id).values(until=row.until)
        new = insert(workers).values(asdict(row) | {"queues": json.dumps(row.queues)})

        def write(connection: Connection) -> None:
            if not connection.execute(renewed).rowcount:
                connection.execute(new)

        await self._writer.write(write)

    async def list(self) -> Sequence[WorkerRow]:
        return await self._reader.read_all(select(workers).order_by(workers.c.id), _worker)

    async def take(self, previous: WorkerRow, *, until: str) -> bool:
        same = (workers.c.id == previous.id) & (workers.c.until == previous.until)
        statement = update(workers).where(same).values(until=until)
        return await self._writer.write(lambda connection: bool(connection.execute(statement).rowcount))

    async def remove(self, id: str) -> None:
        removed = delete(workers).where(workers.c.id == id)
        await self._writer.write(lambda connection: connection.execute(removed))


def add_run(connection: Connection, row: RunRow, *, max_unfinished: int | None = None) -> None:
    """Store a new run within the current transaction."""
    if connection.execute(select(sessions.c.id).where(sessions.c.id == row.session)).first() is None:
        raise missing_session_error("run")
    if max_unfinished is not None:
        of_org = (runs.c.org == (row.org or "")) & runs.c.state.in_(UNFINISHED) & runs.c.queue.is_not(None)
        if connection.execute(select(func.count()).where(of_org)).scalar_one() >= max_unfinished:
            raise RunsFull
    try:
        connection.execute(insert(runs).values(_values(row)))
    except IntegrityError as error:
        raise id_taken_error("a run", row.id) from error


def is_run_queued(connection: Connection, id: str) -> bool:
    """Return whether a run exists and has not begun yet."""
    return connection.execute(select(runs.c.state).where(runs.c.id == id)).scalar() == "queued"


def update_run_state(
    connection: Connection, turn: str, events: Sequence[NewEvent], now: str, usage: str | None
) -> None:
    """Update the state and the usage of the run with the id of a turn, if there is one, after events of the turn."""
    relevant = [event for event in events if event.type in STATE_AFTER]
    if not relevant:
        return
    state, values = STATE_AFTER[relevant[-1].type], {"of_turn": turn}
    if state == "waiting":
        connection.execute(_STATE_UPDATES[state], {**values, "new_usage": usage})
    elif state == "running":
        connection.execute(_STATE_UPDATES[state], {**values, "now": now})
    else:
        data = storable(relevant[-1].data, "the event")
        connection.execute(_ENDING, {**values, "now": now, "new_state": state, "new_outcome": data, "new_usage": usage})


def _values(row: RunRow) -> Mapping[str, Any]:
    return asdict(row) | {"org": row.org or "", "content": storable(row.content, "the message")}


def _run(mapping: RowMapping) -> RunRow:
    row = RunRow(**mapping)
    return replace(row, org=row.org or None)


def _worker(mapping: RowMapping) -> WorkerRow:
    values: dict[str, Any] = dict(mapping)
    values["queues"] = tuple(json.loads(values["queues"]))
    return WorkerRow(**values)
