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
from capset.stores.audit_rules import BadEntry, Row, interrupted
from capset.stores.base import EventFeed
from capset.stores.sql.admissions import SqlAdmissions, SqlApprovals
from capset.stores.sql.agents import SqlAgents
from capset.stores.sql.audit.log import SqlAudit
from capset.stores.sql.audit.records import as_they_lie, extend, marks, raw_records
from capset.stores.sql.blobs import Parts
from capset.stores.sql.deliveries import SqlDeliveries
from capset.stores.sql.directory import SqlDirectory
from capset.stores.sql.documents import Search, SqlDocuments
from capset.stores.sql.events import Notifications, SqlEvents
from capset.stores.sql.files import SqlFiles
from capset.stores.sql.keys import SqlKeys
from capset.stores.sql.lineage import SqlLineage
from capset.stores.sql.people import SqlPeople
from capset.stores.sql.pins import SqlPins
from capset.stores.sql.postgres.online import IndexSpec
from capset.stores.sql.problems import explained
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.replies import SqlReplies, free_keys, reserving_writers
from capset.stores.sql.runs import SqlRuns, SqlWorkers
from capset.stores.sql.schedules import SqlSchedules
from capset.stores.sql.schema.objects import foreign_objects, missing_tables
from capset.stores.sql.schema.revisions import prepare
from capset.stores.sql.schema.tables import open_intents
from capset.stores.sql.sessions import SqlSessions
from capset.stores.sql.states import SqlStates
from capset.stores.sql.usage import SqlUsage, free_steps, stepping_writers
from capset.stores.sql.writer.leases import Leases
from capset.stores.sql.writer.writer import Writer

T = TypeVar("T")

SETTLE_SECONDS: Final = 10.0
"""Interval at which an open store looks for dead writers. The intents of a writer found dead twice are closed."""
_logger = logging.getLogger("capset.stores")


class SqlStore(ABC):
    """Everything that a kernel stores, in one database. ``name`` is the user's name for it."""

    def __init__(
        self,
        name: str,
        *,
        leases: Leases,
        search: Search,
        notifications: Notifications,
        bound: int,
        patience_seconds: float,
    ) -> None:
        self._name = name
        self._leases = leases
        self._writer = Writer(name, self._leases, bound=bound, patience_seconds=patience_seconds)
        self._reader = ReadConnections(name)
        self._engines: tuple[Engine, Engine] | None = None
        self._settling: asyncio.Task[None] | None = None
        self._audit = SqlAudit(self._writer, self._reader)
        self._parts = Parts(self._writer, self._reader)
        self._sessions = SqlSessions(self._writer, self._reader, notifications, self._parts)
        self._files = SqlFiles(self._writer, self._reader, self._parts)
        self._states = SqlStates(self._writer, self._reader)
        self._documents = SqlDocuments(self._writer, self._reader, search)
        self._agents = SqlAgents(self._writer, self._reader)
        self._keys = SqlKeys(self._writer, self._reader)
        self._replies = SqlReplies(self._writer, self._reader, self._leases)
        self._events = SqlEvents(self._writer, self._reader, notifications)
        self._runs = SqlRuns(self._writer, self._reader)
        self._schedules = SqlSchedules(self._writer, self._reader)
        self._workers = SqlWorkers(self._writer, self._reader)
        self._lineage = SqlLineage(self._writer, self._reader)
        self._approvals = SqlApprovals(self._writer, self._reader)
        self._deliveries = SqlDeliveries(self._writer, self._reader)
        self._people = SqlPeople(self._writer, self._reader)
        self._admissions = SqlAdmissions(self._writer, self._reader)
        self._usage = SqlUsage(self._writer, self._reader, self._leases)
        self._directory = SqlDirectory(self._reader)
        self._pins = SqlPins(self._writer, self._reader)

    @property
    def audit(self) -> SqlAudit:
        """The audit log."""
        return self._audit

    @property
    def sessions(self) -> SqlSessions:
        """The sessions."""
        return self._sessions

    @property
    def files(self) -> SqlFiles:
        """The sessions' files."""
        return self._files

    @property
    def states(self) -> SqlStates:
        """State and resources, by scope."""
        return self._states

    @property
    def documents(self) -> SqlDocuments:
        """The searchable texts, by scope."""
        return self._documents

    @property
    def agents(self) -> SqlAgents:
        """The stored agents."""
        return self._agents

    @property
    def keys(self) -> SqlKeys:
        """The API keys."""
        return self._keys

    @property
    def replies(self) -> SqlReplies:
        """The stored replies to idempotent requests."""
        return self._replies

    @property
    def events(self) -> SqlEvents:
        """The sessions' current turns, their events, and the messages of their conversations."""
        return self._events

    @property
    def changes(self) -> EventFeed:
        """Notifications of changes by other processes: of events, if the engine supports them."""
        return EventFeed(self._events)

    @property
    def approvals(self) -> SqlApprovals:
        """The approval requests, and their outcomes."""
        return self._approvals

    @property
    def deliveries(self) -> SqlDeliveries:
        """The deliveries of events to channels."""
        return self._deliveries

    @property
    def people(self) -> SqlPeople:
        """The chat users, and the principals that they act as."""
        return self._people

    @property
    def admissions(self) -> SqlAdmissions:
        """The admissions by limits, budgets and approvals."""
        return self._admissions

    @property
    def runs(self) -> SqlRuns:
        """The runs."""
        return self._runs

    @property
    def schedules(self) -> SqlSchedules:
        """The schedules of runs."""
        return self._schedules

    @property
    def workers(self) -> SqlWorkers:
        """The workers that execute runs."""
        return self._workers

    @property
    def directory(self) -> SqlDirectory:
        """The principals and organisations that appear in the store."""
        return self._directory

    @property
    def pins(self) -> SqlPins:
        """The approvals of tools of MCP servers and APIs."""
        return self._pins

    @property
    def usage(self) -> SqlUsage:
        """The model usage of agents, by window."""
        return self._usage

    @property
    def lineage(self) -> SqlLineage:
        """The record of exact versions: registrations, links, envelopes, and the payloads of hashes."""
        return self._lineage

    @abstractmethod
    def make_engines(self) -> tuple[Engine, Engine]:
        """Return the engines of the writer and of the readers. Raises ``StoreError`` if the database cannot exist."""

    @abstractmethod
    def copy_into(self, file: Path) -> None:
        """Write a consistent copy into an existing empty file, without stopping writers.

        Raises ``StoreError`` if the database cannot be read, the file cannot be written, or a required program is not
        installed.
        """

    @abstractmethod
    def fill_from(self, file: Path, finish: Callable[[Connection], T]) -> T:
        """Create this database from a file that ``copy_into`` wrote, and return the result of ``finish``.

        ``finish`` runs in a transaction before the database is in use. Raises ``DefinitionError`` if the database
        already has files or tables, and ``StoreError`` as ``copy_into`` does.
        """

    def make_beside_writers(self, indexes: Sequence[IndexSpec]) -> None:  # noqa: B027  # most engines have nothing to do
        """Create indexes without blocking writers, if the engine supports that."""

    @property
    def name(self) -> str:
        """The user's name for the database."""
        return self._name

    async def open(self) -> None:
        """Open the database: create or upgrade its tables, and close the intents of dead writers as ``interrupted``.

        Raises ``StoreError`` if a table is missing. Triggers and rules that are not capset's are logged.
        """
        if self._engines:
            raise StoreError(f"the database {self._name!r} is already open")
        self._engines = writing, reading = self.make_engines()
        try:
            self._reader.start(reading)
            await asyncio.to_thread(self._prepare, writing)
            self._writer.start(writing)
            with explained(self._name):
                await close_interrupted(self._writer, self._reader, self._leases)
            self._leases.sweep()
            self._settling = asyncio.get_running_loop().create_task(self._settle(), name="capset-settle")
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Write everything pending and close. Raises ``StoreError`` if something could not be written."""
        engines, self._engines = self._engines, None
        if engines is None:
            return
        settling, self._settling = self._settling, None
        if settling is not None and not settling.done():
            settling.cancel()
        self._reader.stop()
        lost = await self._writer.stop()
        self._leases.release()
        engines[0].dispose()  # the reader disposes of its own engine
        if lost:
            raise StoreError(f"lost {counted(lost, 'audit record')} that could not be written to {self._name!r}")

    async def _settle(self) -> None:
        """Close the intents of writers that die while this store is open, sweep file parts, and settle owed steps."""
        suspects: Collection[str] = ()
        while True:
            await asyncio.sleep(SETTLE_SECONDS)
            try:
                with explained(self._name):
                    suspects = await close_interrupted(self._writer, self._reader, self._leases, among=suspects)
                    await self._parts.sweep()
                    await self._usage.settle_owed()
            except StoreError as error:
                _logger.warning("%s; the check for dead writers will be retried", error.message)

    def _prepare(self, writing: Engine) -> None:
        with self._reader.in_use() as reading, explained(self._name):
            prepare(reading, writing, self._name)
            with reading.begin() as connection:
                missing, foreign = missing_tables(connection), foreign_objects(connection)
        if missing:
            raise StoreError(
                f"the database {self._name!r} lacks {', '.join(f'the table {name}' for name in missing)}",
                hint="restore a backup; run capset db check to see every problem",
            )
        if foreign:
            _logger.warning(
                "the database %r has objects that capset did not create: %s; they can change data without a record",
                self._name,
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
    gone = await asyncio.to_thread(leases.gone, writers) if writers else []
    if closed := [writer_id for writer_id in gone if among is None or writer_id in among]:
        await writer.write(lambda connection: _close(connection, writer.id, closed))
        await writer.write(lambda connection: free_keys(connection, closed))
        await writer.write(lambda connection: free_steps(connection, closed))
    return {*gone} - {*closed}


def _writers(connection: Connection) -> Sequence[str]:
    """Return the writers that have open intents, requests without a reply, or unsettled model steps."""
    acting = connection.execute(select(open_intents.c.writer).distinct()).scalars()
    return sorted({*acting, *reserving_writers(connection), *stepping_writers(connection)})


def _close(connection: Connection, writer: str, gone: Sequence[str]) -> None:
    subquery = f"SELECT id FROM open_intents WHERE writer IN ({marks(connection, len(gone))})"  # noqa: S608
    now = iso(time.time_ns())
    outcomes: list[Row] = []
    with as_they_lie(connection):
        intents = list(raw_records(connection, f"WHERE phase = 'intent' AND id IN ({subquery}) ORDER BY seq", gone))
    for intent in intents:
        try:
            outcomes.append(interrupted(intent, now))
        except BadEntry as bad:  # the intent was altered and is unusable; verify() reports it
            _logger.error("the intent in record %s could not be closed: %s", intent["seq"], bad.message)
    refused = extend(connection, writer, outcomes, {outcome["id"] for outcome in outcomes})
    for outcome, bad in zip(outcomes, refused, strict=True):
        if bad:
            _logger.error("the intent of call %s could not be closed: %s", outcome["id"], bad.message)
    connection.execute(delete(open_intents).where(open_intents.c.writer.in_(gone)))
