"""The schedules in SQL, one row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from capset.errors import StoreError
from capset.stores.base import Entry, Page, RunRow, ScheduleQuery, ScheduleRow
from capset.stores.base.schedules import SchedulesFull
from capset.stores.sql.reader import ReadConnections, read_rows
from capset.stores.sql.runs import add_run
from capset.stores.sql.schema.run_tables import schedules
from capset.stores.sql.schema.tables import sessions
from capset.stores.sql.writer.writer import Writer
from capset.stores.texts import gone, storable


class SqlSchedules:
    """The schedules. One that refers to a session is deleted with it."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def add(self, row: ScheduleRow, *, most: int | None = None, act: Entry | None = None) -> None:
        """Store a new schedule."""

        def write(connection: Connection) -> bool:
            session_query = select(sessions.c.id).where(sessions.c.id == row.session)
            if row.session is not None and connection.execute(session_query).first() is None:
                raise gone("schedule")
            if most is not None:
                of_org = select(func.count()).where(schedules.c.org == (row.org or ""))
                if connection.execute(of_org).scalar_one() >= most:
                    raise SchedulesFull
            try:
                connection.execute(insert(schedules).values(_values(row)))
            except IntegrityError as error:
                raise StoreError(f"there is a schedule {row.id!r} already") from error
            return True

        await self._writer.write(write, act)

    async def get(self, id: str) -> ScheduleRow | None:
        """Return a schedule, or ``None``."""

        def read(connection: Connection) -> ScheduleRow | None:
            row = connection.execute(select(schedules).where(schedules.c.id == id)).mappings().one_or_none()
            return None if row is None else _schedule(row)

        return await self._reader.read(read, is_one_statement=True)

    async def list(self, query: ScheduleQuery) -> Page[ScheduleRow]:
        """Return schedules, newest first."""
        of_principal = (schedules.c.org == (query.org or "")) & (schedules.c.principal == query.principal)
        statement = select(schedules).where(of_principal, schedules.c.principal_kind == query.principal_kind)
        if query.before is not None:
            statement = statement.where(schedules.c.id < query.before)

        def read(connection: Connection) -> Page[ScheduleRow]:
            rows, has_more = read_rows(
                connection, statement.order_by(schedules.c.id.desc()), query.limit, query.max_bytes
            )
            items = tuple([_schedule(row) for row in rows])
            return Page(items, items[-1].id if has_more else None)

        return await self._reader.read(read)

    async def remove(self, id: str, *, act: Entry | None = None) -> bool:
        """Delete a schedule, and return whether there was one."""
        removed = delete(schedules).where(schedules.c.id == id)
        return await self._writer.write(lambda connection: bool(connection.execute(removed).rowcount), act)

    async def due(self, queue: str, *, now: str, limit: int = 100) -> Sequence[ScheduleRow]:
        """Return a queue's due schedules, longest due first, but those with a problem last."""
        is_due = (schedules.c.queue == queue, schedules.c.next_at <= now)
        statement = select(schedules).where(*is_due).order_by(schedules.c.next_at, schedules.c.id)

        def read(connection: Connection) -> Sequence[ScheduleRow]:
            rows: list[ScheduleRow] = []
            for some in (schedules.c.problem.is_(None), schedules.c.problem.is_not(None)):  # each in index order
                page = statement.where(some).limit(limit - len(rows))
                rows += [_schedule(row) for row in connection.execute(page).mappings()]
            return rows

        return await self._reader.read(read)

    async def change(
        self,
        previous: ScheduleRow,
        then: ScheduleRow,
        *,
        run: RunRow | None = None,
        most: int | None = None,
        act: Entry | None = None,
    ) -> bool:
        """Store the fields of ``then`` that differ from ``previous``, if the schedule's next time is unchanged."""
        same = (schedules.c.id == previous.id) & schedules.c.next_at.is_not_distinct_from(previous.next_at)
        changed = {name: value for name, value in _values(then).items() if value != _values(previous)[name]}
        stored = update(schedules).where(same).values(changed | {"next_at": then.next_at})

        def write(connection: Connection) -> bool:
            if not connection.execute(stored).rowcount:
                return False
            if run is not None:
                add_run(connection, run, most=most)
            return True

        return await self._writer.write(write, act)


def _values(row: ScheduleRow) -> Mapping[str, Any]:
    return asdict(row) | {"org": row.org or "", "content": storable(row.content, "the message")}


def _schedule(mapping: RowMapping) -> ScheduleRow:
    row = ScheduleRow(**mapping)
    return replace(row, org=row.org or None)
