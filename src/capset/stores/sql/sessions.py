"""The sessions."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from capset.errors import StoreError
from capset.stores.base import SessionRow
from capset.stores.sql.reader import Reader
from capset.stores.sql.tables import sessions
from capset.stores.sql.writer import Writer


class SqlSessions:
    """The sessions, one row each."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def create(self, row: SessionRow) -> None:
        """Keep a new session. Raises ``StoreError`` if there is one of its id."""

        def write(connection: Connection) -> None:
            try:
                connection.execute(insert(sessions).values(asdict(row)))
            except IntegrityError as error:
                raise StoreError(f"there is a session {row.id!r} already") from error

        await self._writer.write(write)

    async def get(self, id: str) -> SessionRow | None:
        """Return a session, or ``None``."""

        def read(connection: Connection) -> SessionRow | None:
            found = connection.execute(select(sessions).where(sessions.c.id == id)).mappings().one_or_none()
            return SessionRow(**found) if found else None

        return await self._reader.read(read)
