"""The base of stores in SQL databases: their ports, opening and closing. Each engine implements ``make_engines``."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine, delete, select

from capset.clock import iso
from capset.errors import StoreError, counted
from capset.stores.audit_rules import BadEntry, Row, interrupted_outcome
from capset.stores.sql.admissions import SqlAdmissions, SqlApprovals
from capset.stores.sql.agents import SqlAgents
from capset.stores.sql.audit.log import SqlAudit
from capset.stores.sql.audit.records import extend, placeholders, raw_records, undecodable_as_bytes
from capset.stores.sql.blobs import PartStore
from capset.stores.sql.credentials import SqlCredentials
from capset.stores.sql.deliveries import SqlDeliveries
from capset.stores.sql.directory import SqlDirectory
from capset.stores.sql.documents import SqlDocuments, WordIndex
from capset.stores.sql.events import Notifications, SqlEvents
from capset.stores.sql.files import SqlFiles
from capset.stores.sql.keys import SqlKeys
from capset.stores.sql.lineage import SqlLineage
from capset.stores.sql.people import SqlPeople
from capset.stores.sql.pins import SqlPins
from capset.stores.sql.postgres.online import IndexSpec
from capset.stores.sql.problems import store_errors
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.replies import SqlReplies, free_keys, reserving_writers
from capset.stores.sql.runs import SqlRuns, SqlWorkers
from capset.stores.sql.schedules import SqlSchedules
from capset.stores.sql.schema.objects import foreign_objects, missing_tables
from capset.stores.sql.schema.revisions import ensure_schema
from capset.stores.sql.schema.tables import open_intents
from capset.stores.sql.sessions import SqlSessions
from capset.stores.sql.states import SqlStates
from capset.stores.sql.usage import SqlUsage, release_steps, writers_with_steps
from capset.stores.sql.writer.leases import Leases
from capset.stores.sql.writer.writer import Writer

T = TypeVar("T")

MAINTENANCE_SECONDS: Final = 10.0
"""How often an open store looks for dead writers. The intents of a writer found dead twice are closed."""
_logger = logging.getLogger("capset.stores")


class SqlStore(ABC):
    """A ``stores.base.Store`` in one database. ``name`` is the user's name for the database."""

    def __init__(
        self,
        name: str,
        *,
        leases: Leases,
        search: WordIndex,
        notifications: Notifications,
        max_queued: int,
        patience_seconds: float,
    ) -> None:
        self.name = name
        self._leases = leases
        self._writer = Writer(name, leases, max_queued=max_queued, patience_seconds=patience_seconds)
        self._reader = ReadConnections(name)
        self._engines: tuple[Engine, Engine] | None = None
        self._maintenance: asyncio.Task[None] | None = None
        self.audit = SqlAudit(self._writer, self._reader)
        self._parts = PartStore(self._writer, self._reader)
        self.sessions = SqlSessions(self._writer, self._reader, notifications, self._parts)
        self.files = SqlFiles(self._writer, self._reader, self._parts)
        self.states = SqlStates(self._writer, self._reader)
        self.documents = SqlDocuments(self._writer, self._reader, search)
        self.agents = SqlAgents(self._writer, self._reader)
        self.keys = SqlKeys(self._writer, self._reader)
        self.replies = SqlReplies(self._writer, self._reader, leases)
        self.events = SqlEvents(self._writer, self._reader, notifications)
        self.changes = self.events  # notices of events only, if the engine notifies other processes of them
        self.runs = SqlRuns(self._writer, self._reader)
        self.schedules = SqlSchedules(self._writer, self._reader)
        self.workers = SqlWorkers(self._writer, self._reader)
        self.lineage = SqlLineage(self._writer, self._reader)
        self.approvals = SqlApprovals(self._writer, self._reader)
        self.deliveries = SqlDeliveries(self._writer, self._reader)
        self.people = SqlPeople(self._writer, self._reader)
        self.admissions = SqlAdmissions(self._writer, self._reader)
        self.usage = SqlUsage(self._writer, self._reader, leases)
        self.directory = SqlDirectory(self._reader)
        self.credentials = SqlCredentials(self._writer, self._reader)
        self.pins = SqlPins(self._writer, self._reader)

    @abstractmethod
    def make_engines(self) -> tuple[Engine, Engine]:
        """Return the engines of the writer and of the readers. Raises ``StoreError`` if the database cannot exist."""

    @abstractmethod
    def back_up_to(self, file: Path) -> None:
        """Write a consistent copy into an existing empty file, without stopping writers.

        Raises ``StoreError`` if the database cannot be read, the file cannot be written, or a required program is not
        installed.
        """

    @abstractmethod
    def restore_from(self, file: Path, finish: Callable[[Connection], T]) -> T:
        """Create this database from a file that ``back_up_to`` wrote, and return the result of ``finish``.

        ``finish`` runs in a transaction before the database is in use. Raises ``DefinitionError`` if the database
        already has files or tables, and ``StoreError`` as ``back_up_to`` does.
        """

    def create_indexes_online(self, indexes: Sequence[IndexSpec]) -> None:  # noqa: B027  # most engines have nothing to do
        """Create indexes without blocking writers, if the engine supports that."""

    async def open(self) -> None:
        """Open the database: create or upgrade its tables, and close the intents of dead writers as ``interrupted``.

        Raises ``StoreError`` if a table is missing. Triggers and rules that are not capset's are logged.
        """
        if self._engines:
            raise StoreError(f"the database {self.name!r} is already open")
        self._engines = writing, reading = self.make_engines()
        try:
            self._reader.start(reading)
            await asyncio.to_thread(self._prepare, writing)
            self._writer.start(writing)
            with store_errors(self.name):
                await close_interrupted(self._writer, self._reader, self._leases)
            self._leases.sweep()
            self._maintenance = asyncio.get_running_loop().create_task(self._maintain(), name="capset-settle")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        engines, self._engines = self._engines, None
        if engines is None:
            return
        maintenance, self._maintenance = self._maintenance, None
        if maintenance is not None and not maintenance.done():
            maintenance.cancel()
        self._reader.stop()
        lost = await self._writer.stop()
        self._leases.release()
        engines[0].dispose()  # the reader disposes of its own engine
        if lost:
            raise StoreError(f"lost {counted(lost, 'audit record')} that could not be written to {self.name!r}")

    async def _maintain(self) -> None:
        """Close the intents of writers that die while this store is open, sweep file parts, and settle owed steps."""
        suspects: Collection[str] = ()
        while True:
            await asyncio.sleep(MAINTENANCE_SECONDS)
            try:
                with store_errors(self.name):
                    suspects = await close_interrupted(self._writer, self._reader, self._leases, among=suspects)
                    await self._parts.sweep()
                    await self.usage.retry_settlements()
            except StoreError as error:
                _logger.warning("%s; the check for dead writers will be retried", error.message)

    def _prepare(self, writing: Engine) -> None:
        with self._reader.in_use() as reading, store_errors(self.name):
            ensure_schema(reading, writing, self.name)
            with reading.begin() as connection:
                missing, foreign = missing_tables(connection), foreign_objects(connection)
        if missing:
            raise StoreError(
                f"the database {self.name!r} lacks {', '.join(f'the table {name}' for name in missing)}",
                hint="restore a backup; run capset db check to see every problem",
            )
        if foreign:
            _logger.warning(
                "the database %r has objects that capset did not create: %s; they can change data without a record",
                self.name,
                ", ".join(foreign),
            )


async def close_interrupted(
    writer: Writer, reader: ReadConnections, leases: Leases, *, among: Collection[str] | None = None
) -> Collection[str]:
    """Close the open intents of dead writers; with ``among``, only of those in it.

    This also frees the idempotency keys of their calls that had no effect, and the reservations of their model steps.
    Live writers are left alone. Return the dead writers that were skipped.
    """
    writers = [writer_id for writer_id in await reader.read(_writers) if writer_id != writer.id]
    dead = await asyncio.to_thread(leases.dead_writers, writers) if writers else []
    if to_close := [writer_id for writer_id in dead if among is None or writer_id in among]:
        await writer.write(lambda connection: _close_intents(connection, writer.id, to_close))
        await writer.write(lambda connection: free_keys(connection, to_close))
        await writer.write(lambda connection: release_steps(connection, to_close))
    return {*dead} - {*to_close}


def _writers(connection: Connection) -> Sequence[str]:
    """Return the writers that have open intents, requests without a reply, or unsettled model steps."""
    acting = connection.execute(select(open_intents.c.writer).distinct()).scalars()
    return sorted({*acting, *reserving_writers(connection), *writers_with_steps(connection)})


def _close_intents(connection: Connection, writer: str, dead: Sequence[str]) -> None:
    subquery = f"SELECT id FROM open_intents WHERE writer IN ({placeholders(connection, len(dead))})"  # noqa: S608
    now = iso(time.time_ns())
    outcomes: list[Row] = []
    with undecodable_as_bytes(connection):
        intents = list(raw_records(connection, f"WHERE phase = 'intent' AND id IN ({subquery}) ORDER BY seq", dead))
    for intent in intents:
        try:
            outcomes.append(interrupted_outcome(intent, now))
        except BadEntry as bad:  # the intent was altered and is unusable; verify() reports it
            _logger.error("the intent in record %s could not be closed: %s", intent["seq"], bad.message)
    refused = extend(connection, writer, outcomes, {outcome["id"] for outcome in outcomes})
    for outcome, bad in zip(outcomes, refused, strict=True):
        if bad:
            _logger.error("the intent of call %s could not be closed: %s", outcome["id"], bad.message)
    connection.execute(delete(open_intents).where(open_intents.c.writer.in_(dead)))
