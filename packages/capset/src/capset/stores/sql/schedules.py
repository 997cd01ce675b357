"""The schedules in SQL, one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from capset.stores.base import Entry, Page, RunRow, ScheduleQuery, ScheduleRow
from capset.stores.base.schedules import SchedulesFull
from capset.stores.rows import changed_values, id_taken_error
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.runs import add_run
from capset.stores.sql.schema.run_tables import schedules
from capset.stores.sql.schema.tables import sessions
from capset.stores.sql.writer.writer import Writer
from capset.stores.texts import missing_session_error, storable


class SqlSchedules:
    """The schedules. One that refers to a session is deleted with it."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def add(self, row: ScheduleRow, *, max_schedules: int | None = None, act: Entry | None = None) -> None:
        def write(connection: Connection) -> bool:
            session_query = select(sessions.c.id).where(sessions.c.id == row.session)
            if row.session is not None and connection.execute(session_query).first() is None:
                raise missing_session_error("schedule")
            if max_schedules is not None:
                of_org = select(func.count()).where(schedules.c.org == (row.org or ""))
                if connection.execute(of_org).scalar_one() >= max_schedules:
                    raise SchedulesFull
            try:
                connection.execute(insert(schedules).values(_values(row)))
            except IntegrityError as error:
                raise id_taken_error("a schedule", row.id) from error
            return True

        await self._writer.write(write, act)

    async def get(self, id: str) -> ScheduleRow | None:
        return await self._reader.read_one(select(schedules).where(schedules.c.id == id), _schedule)

    async def list(self, query: ScheduleQuery) -> Page[ScheduleRow]:
        of_principal = (schedules.c.principal == query.principal, schedules.c.principal_kind == query.principal_kind)
        statement = select(schedules).where(schedules.c.org == (query.org or ""), *of_principal)
        return await self._reader.read_page(statement, query, _schedule)

    async def remove(self, id: str, *, act: Entry | None = None) -> bool:
        removed = delete(schedules).where(schedules.c.id == id)
        return await self._writer.write(lambda connection: bool(connection.execute(removed).rowcount), act)

    async def due(self, queue: str, *, now: str, limit: int = 100) -> Sequence[ScheduleRow]:
        is_due = (schedules.c.queue == queue, schedules.c.next_at <= now)
        statement = select(schedules).where(*is_due).order_by(schedules.c.next_at, schedules.c.id)

        def read(connection: Connection) -> Sequence[ScheduleRow]:
            rows: list[ScheduleRow] = []
            for condition in (schedules.c.problem.is_(None), schedules.c.problem.is_not(None)):  # each in index order
                page = statement.where(condition).limit(limit - len(rows))
                rows += [_schedule(row) for row in connection.execute(page).mappings()]
            return rows

        return await self._reader.read(read)

    async def change(
        self,
        previous: ScheduleRow,
        then: ScheduleRow,
        *,
        run: RunRow | None = None,
        max_unfinished: int | None = None,
        act: Entry | None = None,
    ) -> bool:
        same = (schedules.c.id == previous.id) & schedules.c.next_at.is_not_distinct_from(previous.next_at)
        changed = changed_values(_values(previous), _values(then))
        stored = update(schedules).where(same).values(changed | {"next_at": then.next_at})

        def write(connection: Connection) -> bool:
            if not connection.execute(stored).rowcount:
                return False
            if run is not None:
                add_run(connection, run, max_unfinished=max_unfinished)
            return True

        return await self._writer.write(write, act)


def _values(row: ScheduleRow) -> Mapping[str, Any]:
    return asdict(row) | {"org": row.org or "", "content": storable(row.content, "the message")}


def _schedule(mapping: RowMapping) -> ScheduleRow:
    row = ScheduleRow(**mapping)
    return replace(row, org=row.org or None)
