"""The stored replies to requests with an ``Idempotency-Key``, counted and bounded by org."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from capset.stores.base import ReplyRow
from capset.stores.base.replies import KeysFull
from capset.stores.sql.schema.tables import replies
from capset.stores.sql.writer.writer import Writer

_SIZE: Final = "size"
_ROW: Final = [column for column in replies.c if column.name != _SIZE]


class SqlReplies:
    """The replies, one row each; ``size`` is that of a kept body. Rows of the version before have no org."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def reserve(self, row: ReplyRow, *, expired: str, most: int | None = None) -> ReplyRow | None:
        """Reserve a request's key and return ``None``, or return the row already stored under it."""

        def write(connection: Connection) -> ReplyRow | None:
            _sweep(connection, expired)
            found = connection.execute(select(*_ROW).where(_at(row.session, row.key))).mappings().one_or_none()
            if found is not None:
                values: dict[str, Any] = {**found, "org": found["org"] or None}
                return ReplyRow(**values)
            if most is not None:
                asked = select(func.count(), func.min(replies.c.created_at)).where(replies.c.org == (row.org or ""))
                count, oldest = connection.execute(asked).one()
                if count >= most:
                    raise KeysFull(oldest or row.created_at)
            connection.execute(insert(replies).values(asdict(row) | {"org": row.org or ""}))
            return None

        return await self._writer.write(write)

    async def fulfil(
        self,
        session: str,
        key: str,
        status: int,
        body: str | None,
        *,
        record: str | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Store the reply to a reserved request; the oldest lose their bodies if all are too large together."""
        values = {"status": status, "body": body, "record": record, _SIZE: len((body or "").encode())}

        def write(connection: Connection) -> None:
            connection.execute(update(replies).where(_at(session, key)).values(values))
            org = connection.execute(select(replies.c.org).where(_at(session, key))).scalar()
            if org is not None and max_bytes is not None:
                _shed(connection, org, max_bytes)

        await self._writer.write(write)

    async def release(self, session: str, key: str) -> None:
        """Forget a request that failed, so that it can be sent again."""
        await self._writer.write(lambda connection: connection.execute(delete(replies).where(_at(session, key))))

    async def sweep(self, *, expired: str) -> None:
        """Delete the rows created before ``expired``."""
        await self._writer.write(lambda connection: _sweep(connection, expired))


def _sweep(connection: Connection, expired: str) -> None:
    connection.execute(delete(replies).where(replies.c.created_at < expired))


def _shed(connection: Connection, org: str, most: int) -> None:
    """Remove an org's oldest bodies until the others fit."""
    kept = (replies.c.org == org) & (replies.c.size > 0)
    left = (connection.execute(select(func.sum(replies.c.size)).where(kept)).scalar() or 0) - most
    if left <= 0:
        return
    oldest = select(replies.c.session, replies.c.key, replies.c.size).where(kept).order_by(replies.c.created_at)
    for session, key, size in connection.execute(oldest).all():
        connection.execute(update(replies).where(_at(session, key)).values(body=None, size=0))
        left -= size
        if left <= 0:
            return


def _at(session: str, key: str) -> ColumnElement[bool]:
    return (replies.c.session == session) & (replies.c.key == key)
