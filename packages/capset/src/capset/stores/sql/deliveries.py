"""Deliveries to channels: queued in the transaction of the reported change, and claimed by one holder each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from capset.stores.base import DeliveryQuery, DeliveryRow, Entry, Page
from capset.stores.pages import filters_of
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import deliveries
from capset.stores.sql.writer.writer import Writer

_OUTCOME: Final = ("state", "due_at", "error", "receipt", "ended_at")


class SqlDeliveries:
    """The deliveries, one row each."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def claim(self, channel: str, holder: str, *, now: str, until: str, limit: int) -> Sequence[DeliveryRow]:
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

        # A worker polls every second. It needs a write transaction only if something is due.
        is_any_due = await self._reader.has_rows(select(deliveries.c.id).where(*is_due))
        return await self._writer.write(write) if is_any_due else []

    async def settle(self, row: DeliveryRow) -> bool:
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
        statement = select(deliveries).where(deliveries.c.channel == channel, deliveries.c.key == key)
        return await self._reader.read_one(statement, _row)

    async def get(self, org: str | None, id: str) -> DeliveryRow | None:
        statement = select(deliveries).where(deliveries.c.org == (org or ""), deliveries.c.id == id)
        return await self._reader.read_one(statement, _row)

    async def list(self, query: DeliveryQuery) -> Page[DeliveryRow]:
        statement = select(deliveries).where(deliveries.c.org == (query.org or ""))
        statement = statement.filter_by(**filters_of(query, ("state", "channel", "approval")))
        return await self._reader.read_page(statement, query, _row)

    async def retry(self, org: str | None, id: str, *, now: str, act: Entry | None = None) -> bool:
        condition = (deliveries.c.org == (org or "")) & (deliveries.c.id == id) & (deliveries.c.state == "failed")
        queued = update(deliveries).where(condition).values(state="queued", attempts=0, due_at=now, ended_at=None)
        return await self._writer.write(lambda connection: bool(connection.execute(queued).rowcount), act)

    async def sweep(self, *, before: str) -> None:
        old = deliveries.c.created_at < before
        if await self._reader.has_rows(select(deliveries.c.id).where(old)):
            await self._writer.write(lambda connection: connection.execute(delete(deliveries).where(old)))


def queue_deliveries(connection: Connection, rows: Sequence[DeliveryRow]) -> None:
    """Queue deliveries in the current transaction, except those whose channel already has one with the same key."""
    for row in rows:
        same = (deliveries.c.channel == row.channel) & (deliveries.c.key == row.key)
        if connection.execute(select(deliveries.c.id).where(same)).first() is None:
            connection.execute(insert(deliveries).values(asdict(row) | {"org": row.org or ""}))


def _row(mapping: RowMapping) -> DeliveryRow:
    row = DeliveryRow(**mapping)
    return replace(row, org=row.org or None)
