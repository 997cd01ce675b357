"""The sessions in SQL, one row each, and their deletion with all their data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from capset.errors import StoreError
from capset.stores.base import VERSION_FIELDS, Entry, Page, SessionQuery, SessionRow
from capset.stores.base.sessions import MAX_SEARCHED
from capset.stores.pages import filters_of
from capset.stores.sql.blobs import PartStore
from capset.stores.sql.events import Notifications
from capset.stores.sql.files import FileRows
from capset.stores.sql.reader import ReadConnections, contains, read_rows
from capset.stores.sql.schema.tables import approvals, replies, reservations, sessions, spendings
from capset.stores.sql.usage import delete_usage
from capset.stores.sql.writer.writer import Writer


class SqlSessions:
    """The sessions, one row each."""

    def __init__(self, writer: Writer, reader: ReadConnections, notifications: Notifications, parts: PartStore) -> None:
        self._writer = writer
        self._reader = reader
        self._notifications = notifications
        self._parts = parts

    async def create(self, row: SessionRow) -> None:
        await self._writer.write(lambda connection: _insert(connection, row))

    async def upsert(self, row: SessionRow) -> SessionRow:
        def write(connection: Connection) -> SessionRow:
            condition = sessions.c.door == row.door
            existing = connection.execute(select(sessions.c.id, sessions.c.created_at).where(condition)).one_or_none()
            if existing is None:
                _insert(connection, row)
                return row
            updated = replace(row, id=existing.id, created_at=existing.created_at)
            connection.execute(update(sessions).where(condition).values(asdict(updated)))
            return updated

        return await self._writer.write(write)

    async def move(self, row: SessionRow, *, expected: int | None, act: Entry | None = None) -> bool:
        statement = (
            update(sessions)
            .where(sessions.c.id == row.id)
            .values({name: getattr(row, name) for name in VERSION_FIELDS})
        )
        if expected is not None:
            statement = statement.where(sessions.c.agent_version == expected)
        return await self._writer.write(lambda connection: bool(connection.execute(statement).rowcount), act)

    async def get(self, id: str) -> SessionRow | None:
        return await self._read(sessions.c.id == id)

    async def find(self, door: str) -> SessionRow | None:
        return await self._read(sessions.c.door == door)

    async def _read(self, condition: ColumnElement[bool]) -> SessionRow | None:
        def read(connection: Connection) -> SessionRow | None:
            row = connection.execute(select(sessions).where(condition)).mappings().one_or_none()
            return SessionRow(**row) if row else None

        return await self._reader.read(read, is_one_statement=True)

    async def list(self, query: SessionQuery) -> Page[SessionRow]:
        of_org = sessions.c.org == query.org if query.org is not None else sessions.c.org.is_(None)
        filters = filters_of(query, ("principal", "principal_kind", "agent_id"))
        conditions: list[ColumnElement[bool]] = [
            of_org,
            *(sessions.c[name] == value for name, value in filters.items()),
        ]
        if query.principal_kind is not None:
            conditions.append(sessions.c.on_behalf_of.is_not_distinct_from(query.on_behalf_of))
        if query.before is not None:
            conditions.append(sessions.c.id < query.before)

        def read(connection: Connection) -> Page[SessionRow]:
            statement, searched_from = select(sessions).where(*conditions), None
            if query.text is not None:
                searched_from = _search_start(connection, conditions)
                statement = statement.where(sessions.c.id >= (searched_from or ""))
                statement = statement.where(
                    contains(sessions.c.agent, query.text) | contains(sessions.c.id, query.text)
                )
            statement = statement.order_by(sessions.c.id.desc())
            rows, has_more = read_rows(connection, statement, query.limit, query.max_bytes)
            items = tuple([SessionRow(**row) for row in rows])
            return Page(items, items[-1].id if has_more else searched_from)

        return await self._reader.read(read)

    async def delete(self, id: str, *, act: Entry | None = None) -> bool:
        """Delete a session with all its data, and return whether it existed."""

        def write(connection: Connection) -> bool:
            FileRows(connection, id).remove_all(self._parts)
            org = connection.execute(select(sessions.c.org).where(sessions.c.id == id)).scalar() or ""
            connection.execute(delete(approvals).where(approvals.c.org == org, approvals.c.session == id))
            connection.execute(delete(replies).where(replies.c.session == id))
            of_runs = (spendings.c.owner > f"{id}/") & (spendings.c.owner < f"{id}0")  # the character after a slash
            connection.execute(delete(spendings).where((spendings.c.owner == id) | of_runs))
            traces = (reservations.c.key >= f"quota {id}") & (reservations.c.key < f"quota {id}0")
            connection.execute(delete(reservations).where(traces))
            delete_usage(connection, id)
            self._notifications.send(connection, id)
            # The session's state and documents are deleted by foreign keys.
            return bool(connection.execute(delete(sessions).where(sessions.c.id == id)).rowcount)

        is_deleted = await self._writer.write(write, act)
        await self._parts.sweep_freed()
        return is_deleted


def _search_start(connection: Connection, conditions: Sequence[ColumnElement[bool]]) -> str | None:
    """Return the id from which on sessions are searched for a text, ``None`` if that is all of them."""
    newest = select(sessions.c.id).where(*conditions).order_by(sessions.c.id.desc())
    ends = connection.execute(newest.offset(MAX_SEARCHED - 1).limit(2)).scalars().all()
    return ends[0] if len(ends) > 1 else None


def _insert(connection: Connection, row: SessionRow) -> None:
    try:
        connection.execute(insert(sessions).values(asdict(row)))
    except IntegrityError as error:
        raise StoreError(f"there is already a session {row.id!r}") from error
