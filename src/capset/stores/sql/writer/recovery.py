"""Recovery of the intents that dead writers left open: each gets the outcome ``interrupted`` (spec 4, G19)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from capset.clock import iso
from capset.stores.entries import BadEntry, Row, interrupted
from capset.stores.sql.audit.records import as_they_lie, extend, marks, raw_records
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import open_intents
from capset.stores.sql.writer.leases import Leases
from capset.stores.sql.writer.writer import Writer

_logger = logging.getLogger("capset.stores")


async def close_interrupted(writer: Writer, reader: ReadConnections, leases: Leases) -> None:
    """Close the open intents of every dead writer; those of a live one are its own business."""
    if writers := await reader.read(_writers):
        gone = await asyncio.to_thread(leases.gone, writers)
        if gone:
            await writer.write(lambda connection: _close(connection, writer.id, gone))
    leases.sweep()


def _writers(connection: Connection) -> Sequence[str]:
    """Return the writers that have open intents."""
    return connection.execute(select(open_intents.c.writer).distinct()).scalars().all()


def _close(connection: Connection, writer: str, gone: Sequence[str]) -> None:
    listed = f"SELECT id FROM open_intents WHERE writer IN ({marks(connection, len(gone))})"  # noqa: S608
    now = iso(time.time_ns())
    outcomes: list[Row] = []
    with as_they_lie(connection):
        intents = list(raw_records(connection, f"WHERE phase = 'intent' AND id IN ({listed}) ORDER BY seq", gone))
    for intent in intents:
        try:
            outcomes.append(interrupted(intent, now))
        except BadEntry as bad:  # the intent was changed beyond use; verify() names it
            _logger.error("the intent in record %s could not be closed: %s", intent["seq"], bad.message)
    refused = extend(connection, writer, outcomes, {outcome["id"] for outcome in outcomes})
    for outcome, bad in zip(outcomes, refused, strict=True):
        if bad:
            _logger.error("the intent of call %s could not be closed: %s", outcome["id"], bad.message)
    connection.execute(delete(open_intents).where(open_intents.c.writer.in_(gone)))
