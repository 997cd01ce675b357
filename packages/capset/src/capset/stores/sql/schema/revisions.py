"""Schema revisions: read with plain SQL, upgraded with Alembic, which is imported only for upgrades.

A new database needs no upgrade: its tables are created from their definitions in the code.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.resources import files
from threading import Lock
from typing import Any, Final

from sqlalchemy import Connection, Dialect, Engine, Text, inspect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql.base import PGTypeCompiler
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex, CreateTable

from capset.errors import StoreBusy, StoreError
from capset.stores.sql.documents import WORD_TABLES
from capset.stores.sql.postgres.engines import UPGRADES
from capset.stores.sql.problems import is_locked
from capset.stores.sql.schema.tables import metadata

_REVISIONS: Final = dict(
    sorted(
        (path.name[:4], path.name[5:].startswith("indexes_"))
        for path in (files("capset.stores.sql") / "migrations" / "versions").iterdir()
        if path.name[:4].isdigit()
    )
)
"""Whether each revision only adds indexes, as its file name ``NNNN_indexes_….py`` says."""

HEAD: Final = max(_REVISIONS)
"""The revision of this version of capset: the last one in ``migrations/versions``."""

OLDEST_USABLE: Final = max(revision for revision, only_adds_indexes in _REVISIONS.items() if not only_adds_indexes)
"""The oldest revision that this version works with. Later ones add indexes, without which it is only slower."""

KNOWN_REVISIONS: Final = frozenset(_REVISIONS)
"""Every revision that this version can upgrade to ``HEAD``."""

LARGE_ROWS: Final = 100_000
"""Number of records or files from which opening a server's database creates no indexes, as that would block writers."""

_UPGRADE_LOCK: Final = Lock()
"""Alembic has one current database per process: concurrent upgrades would change each other's."""

_logger = logging.getLogger("capset.stores")

_CREATE_REVISION_TABLE: Final = (
    "CREATE TABLE alembic_version ("
    " version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num) )"
)
_INSERT_COMPATIBLE: Final = "INSERT INTO settings VALUES ('compatible', '0001')"
"""Stores the oldest revision whose code works with this schema. The migration that last changed it stores the same."""
_NO_COMPRESSION: Final = "ALTER TABLE blob_parts ALTER COLUMN content SET STORAGE EXTERNAL"
"""For PostgreSQL: compressing the parts of files takes longer than writing the bytes that it saves."""


def ensure_schema(reading: Engine, writing: Engine, name: str) -> None:
    """Create or upgrade the tables, unless they are current.

    Two processes may do this at once: the second waits for the first and finds nothing left to do. Raises
    ``StoreError`` if the database was created by an incompatible version of capset or by another program.
    """
    with writing.connect():
        pass  # the first connection creates the file and switches it to WAL
    with reading.connect() as connection:
        revision = revision_of(connection, name)
        target = _target_revision(connection, revision)
    if revision != target:
        with upgrade_transaction(writing) as connection:
            revision = revision_of(connection, name)
            target = _target_revision(connection, revision)
            if revision is None:
                create_schema(connection)
            elif revision != target:
                migrate_to(connection, target, postpone_indexes=target != HEAD)
    if target in KNOWN_REVISIONS - {HEAD}:
        _logger.warning("the database %r lacks indexes: capset db upgrade makes them without blocking writers", name)


@contextmanager
def upgrade_transaction(writing: Engine) -> Generator[Connection]:
    """Begin an upgrade's transaction, waiting up to a minute while another process creates or upgrades the tables.

    Writers give up sooner, in case the process with the lock is frozen. On PostgreSQL, the transaction may be idle
    between its statements for any time, since a migration or a busy machine may need it.
    """
    until = time.monotonic() + 60.0  # seconds
    options: dict[str, Any] = {UPGRADES: True}
    upgrading = writing.execution_options(**options)
    with ExitStack() as stack:
        while True:
            try:
                connection = stack.enter_context(upgrading.begin())
                break
            except (StoreBusy, DBAPIError) as error:
                if time.monotonic() >= until or not (isinstance(error, StoreBusy) or is_locked(error)):
                    raise
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield connection


def revision_of(connection: Connection, name: str) -> str | None:
    """Return the database's revision, or ``None`` if the database is empty.

    The revision may be unknown to this version, if the newer version that created it marked it as compatible. Raises
    ``StoreError`` as ``ensure_schema`` does.
    """
    tables = inspect(connection).get_table_names()
    if "alembic_version" not in tables:
        if tables:
            raise StoreError(f"the database {name!r} belongs to another program", hint="give capset its own database")
        return None
    revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    is_unknown = revision is not None and revision not in KNOWN_REVISIONS
    if is_unknown and not ("settings" in tables and _is_compatible(connection)):
        raise StoreError(
            f"the database {name!r} was made by an incompatible version of capset"
            f" (its revision is {str(revision)[:40]!r}; this version knows {min(KNOWN_REVISIONS)} to {HEAD})",
            hint="upgrade capset; a database from before the first release cannot be upgraded: use a new one",
        )
    return revision


def is_large(connection: Connection) -> bool:
    """Return whether creating indexes would block writers for too long. An SQLite file takes seconds only."""
    if connection.dialect.name == "sqlite":
        return False
    # Records are numbered without gaps, and finding the first and last number is cheap.
    records = "SELECT coalesce(max(seq) - min(seq), 0) FROM records"
    files = "SELECT reltuples FROM pg_class WHERE oid = to_regclass('files')"  # the server's estimate
    return any((connection.exec_driver_sql(statement).scalar() or 0) >= LARGE_ROWS for statement in (records, files))


def migrate_to(connection: Connection, revision: str, *, postpone_indexes: bool = False) -> None:
    """Run the migrations up to a revision, within the connection's current transaction.

    ``postpone_indexes`` skips the indexes without which capset is only slower.
    """
    with _UPGRADE_LOCK:
        from alembic import command
        from alembic.config import Config

        config = Config(attributes={"connection": connection, "indexes_postponed": postpone_indexes})
        config.set_main_option("script_location", "capset.stores.sql:migrations")
        command.upgrade(config, revision)


def _target_revision(connection: Connection, revision: str | None) -> str:
    """Return the revision to upgrade a database to when it is opened: its current one if it needs no upgrade."""
    if revision is None or revision in KNOWN_REVISIONS - {HEAD}:
        return max(OLDEST_USABLE, revision) if revision is not None and is_large(connection) else HEAD
    return revision


def _is_compatible(connection: Connection) -> bool:
    statement = "SELECT value FROM settings WHERE name = 'compatible'"
    oldest = connection.exec_driver_sql(statement).scalar()
    return isinstance(oldest, str) and oldest <= HEAD


def create_schema(connection: Connection) -> None:
    """Create the tables of an empty database, within the current transaction, and stamp them with ``HEAD``."""
    create_tables(connection)
    connection.exec_driver_sql(_CREATE_REVISION_TABLE)
    connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{HEAD}')")  # noqa: S608 - a number


def create_tables(connection: Connection) -> None:
    """Create the tables of an empty database, within the current transaction."""
    for statement in _statements(connection.dialect.name):
        connection.exec_driver_sql(statement)


class _Collated(PGTypeCompiler):
    """Compiler of PostgreSQL's types that compares text by code point, as SQLite does."""

    def visit_TEXT(self, type_: Text, **options: Any) -> str:  # SQLAlchemy's own options
        return 'TEXT COLLATE "C"'


@cache
def _statements(engine: str) -> tuple[str, ...]:
    """Return the statements that create all tables in an engine. Compiling them takes longer than running them."""
    if engine == "sqlite":
        dialect: Dialect = sqlite.dialect()
    else:
        dialect = postgresql.dialect()
        dialect.type_compiler_instance = _Collated(dialect)
    statements: list[str] = []
    for table in metadata.sorted_tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        constructs = (CreateTable(table), *map(CreateIndex, indexes))
        statements += [str(construct.compile(dialect=dialect)) for construct in constructs]
    if engine == "postgresql":
        statements.append(_NO_COMPRESSION)
    return (*statements, *WORD_TABLES[engine], _INSERT_COMPATIBLE)
