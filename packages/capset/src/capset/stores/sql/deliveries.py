"""Deliveries to channels: queued in the transaction of the reported change, and claimed by one holder each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, insert, select, update

from capset.stores.base import DeliveryQuery, DeliveryRow, Entry, Page
from capset.stores.sql.reader import ReadConnections, read_rows
from capset.stores.sql.schema.tables import deliveries
from capset.stores.sql.writer.writer import Writer

_OUTCOME: Final = ("state", "due_at", "error", "receipt", "ended_at")


class SqlDeliveries:
    """The deliveries, one row each."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def claim(self, channel: str, holder: str, *, now: str, until: str, limit: int) -> Sequence[DeliveryRow]:
        """Lease a channel's due deliveries to ``holder`` until ``until``, and return them."""
        is_due = (deliveries.c.channel == channel, deliveries.c.state == "queued", deliveries.c.due_at <= now)
        statement = select(deliveries).where(*is_due).order_by(deliveries.c.due_at, deliveries.c.id).limit(limit)

        def write(connection: Connection) -> list[DeliveryRow]:
            # Write transactions are serialized, so that no other claim comes between the query and the update.
            rows = [_row(mapping) for mapping in connection.execute(statement).mappings()]
            claimed = [replace(row, holder=holder, due_at=until, attempts=row.attempts + 1) for row in rows]
            for row in claimed:
                values = {"holder": holder, "due_at": until, "attempts": row.attempts}
                connection.execute(update(deliveries).where(deliveries.c.id == row.id).values(values))
            return claimed

        def any_due(connection: Connection) -> bool:
            return connection.execute(select(deliveries.c.id).where(*is_due).limit(1)).first() is not None

        # A worker polls every second. It needs a write transaction only if something is due.
        return await self._writer.write(write) if await self._reader.read(any_due, is_one_statement=True) else []

    async def settle(self, row: DeliveryRow) -> bool:
        """Store the outcome of a claimed delivery's attempt, and release the claim."""
        condition = (
            (deliveries.c.id == row.id)
            & (deliveries.c.state == "queued")
            & (deliveries.c.holder == row.holder)
            & (deliveries.c.attempts == row.attempts)
        )
        values = {name: getattr(row, name) for name in _OUTCOME} | {"holder": ""}
        settled = update(deliveries).where(condition).values(values)
        return await self._writer.write(lambda connection: bool(connection.execute(settled).rowcount))

    async def find(self, channel: str, key: str) -> DeliveryRow | None:
        """Return a channel's delivery of an event, or ``None``."""
        return await self._one((deliveries.c.channel == channel) & (deliveries.c.key == key))

    async def get(self, org: str | None, id: str) -> DeliveryRow | None:
        """Return a delivery of an org, or ``None``."""
        return await self._one((deliveries.c.org == (org or "")) & (deliveries.c.id == id))

    async def list(self, query: DeliveryQuery) -> Page[DeliveryRow]:
        """Return deliveries, newest first."""
        statement = select(deliveries).where(deliveries.c.org == (query.org or ""))
        for name in ("state", "channel", "approval"):
            if (value := getattr(query, name)) is not None:
                statement = statement.where(deliveries.c[name] == value)
        if query.before is not None:
            statement = statement.where(deliveries.c.id < query.before)
        statement = statement.order_by(deliveries.c.id.desc())

        def read(connection: Connection) -> Page[DeliveryRow]:
            rows, has_more = read_rows(connection, statement, query.limit, query.max_bytes)
            items = tuple([_row(row) for row in rows])
            return Page(items, items[-1].id if has_more else None)

        return await self._reader.read(read)

    async def retry(self, org: str | None, id: str, *, now: str, act: Entry | None = None) -> bool:
        """Requeue an org's failed delivery, and return whether it had failed."""
        condition = (deliveries.c.org == (org or "")) & (deliveries.c.id == id) & (deliveries.c.state == "failed")
        queued = update(deliveries).where(condition).values(state="queued", attempts=0, due_at=now, ended_at=None)
        return await self._writer.write(lambda connection: bool(connection.execute(queued).rowcount), act)

    async def sweep(self, *, before: str) -> None:
        """Delete the deliveries created before ``before``, in any state."""
        old = deliveries.c.created_at < before

        def any_old(connection: Connection) -> bool:
            return connection.execute(select(deliveries.c.id).where(old).limit(1)).first() is not None

        if await self._reader.read(any_old, is_one_statement=True):
            await self._writer.write(lambda connection: connection.execute(delete(deliveries).where(old)))

    async def _one(self, at: ColumnElement[bool]) -> DeliveryRow | None:
        def read(connection: Connection) -> DeliveryRow | None:
            row = connection.execute(select(deliveries).where(at)).mappings().one_or_none()
            return None if row is None else _row(row)

        return await self._reader.read(read, is_one_statement=True)


def queue_deliveries(connection: Connection, rows: Sequence[DeliveryRow]) -> None:
    """Queue deliveries in the current transaction, except those whose channel already has one with the same key."""
    for row in rows:
        same = (deliveries.c.channel == row.channel) & (deliveries.c.key == row.key)
        if connection.execute(select(deliveries.c.id).where(same)).first() is None:
            connection.execute(insert(deliveries).values(asdict(row) | {"org": row.org or ""}))


def _row(mapping: RowMapping) -> DeliveryRow:
    row = DeliveryRow(**mapping)
    return replace(row, org=row.org or None)
