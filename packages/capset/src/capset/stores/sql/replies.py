"""The stored replies to requests with an ``Idempotency-Key``, limited per org."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, func, insert, select, update

from capset.errors import StoreError
from capset.stores.base import ReplyRow
from capset.stores.base.replies import KeysFull
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import IS_OUTCOME, records, replies
from capset.stores.sql.writer.leases import Leases
from capset.stores.sql.writer.writer import Writer

_SIZE: Final = "size"
_ROW: Final = [column for column in replies.c if column.name != _SIZE]


class SqlReplies:
    """The replies, one row each. ``size`` is the size of a stored body.

    Until there is a reply, ``body`` is a JSON note with the writer and the correlation of the call.
    """

    def __init__(self, writer: Writer, reader: ReadConnections, leases: Leases) -> None:
        self._writer = writer
        self._reader = reader
        self._leases = leases

    async def reserve(self, row: ReplyRow, *, expired: str, max_keys: int | None = None) -> ReplyRow | None:
        def write(connection: Connection) -> ReplyRow | None:
            _sweep(connection, expired)
            existing = connection.execute(select(*_ROW).where(_of_key(row.session, row.key))).mappings().one_or_none()
            if existing is not None:
                return _reply(existing)
            if max_keys is not None:
                statement = select(func.count(), func.min(replies.c.created_at)).where(replies.c.org == (row.org or ""))
                count, oldest = connection.execute(statement).one()
                if count >= max_keys:
                    raise KeysFull(oldest or row.created_at)
            try:
                self._leases.take(self._writer.id)  # otherwise another process would consider this one dead
            except OSError as error:
                raise StoreError(f"this process cannot show that it is alive: {error}") from None
            note = {"writer": self._writer.id, "correlation": row.correlation}
            new = {name: value for name, value in asdict(row).items() if name != "correlation"}
            connection.execute(insert(replies).values(new | {"org": row.org or "", "body": json.dumps(note)}))
            return None

        return await self._writer.write(write)

    async def get(self, session: str, key: str) -> ReplyRow | None:
        return await self._reader.read_one(select(*_ROW).where(_of_key(session, key)), _reply)

    async def complete(
        self,
        session: str,
        key: str,
        status: int,
        body: str | None,
        *,
        record: str | None = None,
        max_bytes: int | None = None,
    ) -> None:
        values = {"status": status, "body": body, "record": record, _SIZE: len((body or "").encode())}

        def write(connection: Connection) -> None:
            connection.execute(update(replies).where(_of_key(session, key)).values(values))
            org = connection.execute(select(replies.c.org).where(_of_key(session, key))).scalar()
            if org is not None and max_bytes is not None:
                _remove_oldest_bodies(connection, org, max_bytes)

        await self._writer.write(write)

    async def release(self, session: str, key: str) -> None:
        await self._writer.write(lambda connection: connection.execute(delete(replies).where(_of_key(session, key))))

    async def sweep(self, *, expired: str) -> None:
        await self._writer.write(lambda connection: _sweep(connection, expired))


def _reply(mapping: RowMapping) -> ReplyRow:
    values: dict[str, Any] = {**mapping, "org": mapping["org"] or None}
    if values["status"] is None:
        values |= {"body": None, "correlation": json.loads(values["body"])["correlation"]}
    return ReplyRow(**values)


def reserving_writers(connection: Connection) -> set[str]:
    """Return the writers with reserved keys that have no reply yet."""
    notes = connection.execute(select(replies.c.body).where(replies.c.status.is_(None))).scalars()
    return {json.loads(note)["writer"] for note in notes}


def free_keys(connection: Connection, dead_writers: Collection[str]) -> None:
    """Delete the keys that dead writers reserved for calls without an intent. Open intents are closed before."""
    intents = records.alias()
    for row in connection.execute(select(replies).where(replies.c.status.is_(None))).all():
        note = json.loads(row.body)
        if note["writer"] not in dead_writers or note["correlation"] is None:
            continue
        ended = select(records.c.id).where(IS_OUTCOME, records.c.correlation == note["correlation"])
        acted = select(intents.c.id).where(intents.c.phase == "intent", intents.c.id.in_(ended))
        if connection.execute(acted.limit(1)).first() is None:
            connection.execute(delete(replies).where(_of_key(row.session, row.key)))


def _sweep(connection: Connection, expired: str) -> None:
    connection.execute(delete(replies).where(replies.c.created_at < expired))


def _remove_oldest_bodies(connection: Connection, org: str, maximum: int) -> None:
    """Remove an org's oldest bodies until the rest fit."""
    condition = (replies.c.org == org) & (replies.c.size > 0)
    excess = (connection.execute(select(func.sum(replies.c.size)).where(condition)).scalar() or 0) - maximum
    if excess <= 0:
        return
    oldest = select(replies.c.session, replies.c.key, replies.c.size).where(condition).order_by(replies.c.created_at)
    for session, key, size in connection.execute(oldest).all():
        connection.execute(update(replies).where(_of_key(session, key)).values(body=None, size=0))
        excess -= size
        if excess <= 0:
            return


def _of_key(session: str, key: str) -> ColumnElement[bool]:
    return (replies.c.session == session) & (replies.c.key == key)
