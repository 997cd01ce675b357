"""The stored replies."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from capset.stores.base import ReplyRow
from capset.stores.sql.schema.tables import replies
from capset.stores.sql.writer.writer import Writer


class SqlReplies:
    """The replies, one row each."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def reserve(self, row: ReplyRow, *, expired: str) -> ReplyRow | None:
        """Reserve a request's key and return ``None``, or return the row already stored under it."""

        def write(connection: Connection) -> ReplyRow | None:
            connection.execute(delete(replies).where(replies.c.created_at < expired))
            found = connection.execute(select(replies).where(_at(row.session, row.key))).mappings().one_or_none()
            if found is not None:
                return ReplyRow(**found)
            connection.execute(insert(replies).values(asdict(row)))
            return None

        return await self._writer.write(write)

    async def fulfil(self, session: str, key: str, status: int, body: str) -> None:
        """Store the reply to a reserved request."""
        answered = update(replies).where(_at(session, key)).values(status=status, body=body)
        await self._writer.write(lambda connection: connection.execute(answered))

    async def release(self, session: str, key: str) -> None:
        """Forget a request that failed, so that it can be sent again."""
        await self._writer.write(lambda connection: connection.execute(delete(replies).where(_at(session, key))))


def _at(session: str, key: str) -> ColumnElement[bool]:
    return (replies.c.session == session) & (replies.c.key == key)
