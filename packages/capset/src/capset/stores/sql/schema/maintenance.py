"""Maintenance of a database: upgrades, checks and copies (spec 5, P30)."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from sqlalchemy import Connection, Engine, create_engine, inspect, update

from capset.errors import DefinitionError, StoreError
from capset.fingerprint.chain import Verification
from capset.stores.sql.audit.act_checks import ActComparison, compare_with_acts
from capset.stores.sql.audit.log import verify_chain
from capset.stores.sql.postgres.online import IndexSpec, invalid_indexes
from capset.stores.sql.problems import store_errors
from capset.stores.sql.schema.objects import foreign_objects, missing_tables
from capset.stores.sql.schema.revisions import (
    HEAD,
    KNOWN_REVISIONS,
    OLDEST_USABLE,
    create_schema,
    ensure_schema,
    is_large,
    migrate_to,
    revision_of,
    upgrade_transaction,
)
from capset.stores.sql.schema.tables import approvals, metadata
from capset.stores.sql.store import SqlStore


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """One migration: its revision, a one-sentence summary, and whether writers can continue while it runs."""

    revision: str
    does: str
    beside_writers: bool


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """The current revision of a database (``None`` if empty), and the steps to this version's revision, in order."""

    before: str | None
    steps: tuple[UpgradeStep, ...]


def plan(store: SqlStore) -> UpgradePlan:
    """Return the steps that ``upgrade`` would take. Raises ``StoreError`` as ``Store.open`` does."""
    _, reading = store.make_engines()
    try:
        with store_errors(store.name), reading.begin() as connection:
            return _plan(connection, store.name)
    finally:
        reading.dispose()


def upgrade(store: SqlStore) -> UpgradePlan:
    """Upgrade a database, even an empty one, to this version's revision, and return the steps taken.

    ``store`` must not be open; other processes may keep the database open and continue to work. Raises ``StoreError``
    as ``Store.open`` does.
    """
    writing, reading = store.make_engines()
    try:
        with store_errors(store.name):
            with writing.connect():
                pass  # the first connection creates the file
            with reading.begin() as connection:
                upgrade_plan = _plan(connection, store.name)
            steps = upgrade_plan.steps
            if not steps or not all(step.beside_writers for step in steps):
                ensure_schema(reading, writing, store.name)
            if any(step.beside_writers for step in steps):
                _create_postponed_indexes(store, writing)
        return upgrade_plan
    finally:
        writing.dispose()
        reading.dispose()


def _plan(connection: Connection, name: str) -> UpgradePlan:
    before = revision_of(connection, name)
    is_newer = before is not None and before not in KNOWN_REVISIONS  # and compatible with this version
    if before == HEAD or is_newer:
        return UpgradePlan(before, ())
    large = before is not None and is_large(connection)
    steps = [
        UpgradeStep(revision, does, beside_writers=large and indexes is not None)
        for revision, does, indexes in migrations()
        if before is None or revision > before
    ]
    return UpgradePlan(before, tuple(steps))


def _create_postponed_indexes(store: SqlStore, writing: Engine) -> None:
    """Create the indexes that opening the store leaves out, then record that they exist."""
    for _, _, indexes in migrations():
        if indexes is not None:
            store.create_indexes_online(indexes)
    with upgrade_transaction(writing) as connection:
        if revision_of(connection, store.name) in KNOWN_REVISIONS - {HEAD}:  # otherwise another process has done it
            migrate_to(connection, HEAD)


def migrations() -> list[tuple[str, str, tuple[IndexSpec, ...] | None]]:
    """Return the revision, the docstring and the indexes of each migration, in order.

    A migration lists its indexes in ``INDEXES`` if it adds nothing else that the code depends on.
    """
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", "capset.stores.sql:migrations")
    scripts = reversed(list(ScriptDirectory.from_config(config).walk_revisions()))
    return [
        (script.revision, " ".join(script.doc.split()), getattr(script.module, "INDEXES", None)) for script in scripts
    ]


@dataclass(frozen=True, slots=True)
class DatabaseCheck:
    """The result of a check: the revision, one sentence for each problem, and the verification if requested.

    ``notes`` say what was not compared.
    """

    revision: str | None
    problems: tuple[str, ...]
    verification: Verification | None = None
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no problem was found and any verification succeeded."""
        return not self.problems and (self.verification is None or self.verification.ok)


def check(store: SqlStore, *, verify: bool = False) -> DatabaseCheck:
    """Look for damage, for differences from this version's schema, and for triggers and rules that are not capset's.

    With ``verify``, also verify the chain, and compare API keys, people and agents with the acts recorded in it. If a
    table is missing, or an upgrade would change the tables, the chain cannot be verified, which is reported as a
    problem. Other additions to a database are not problems. ``store`` must not be open; other processes may keep the
    database open and continue to work. Raises ``StoreError`` for a database that belongs to another program, is of an
    incompatible newer version, or cannot be read at all.
    """
    reading = store.make_engines()[1]
    try:
        with store_errors(store.name), reading.begin() as connection:
            revision = revision_of(connection, store.name)
            if revision is None:
                return DatabaseCheck(None, ("the database is empty",))
            problems, missing = _find_damage(connection), list[str]()
            verification, notes = None, tuple[str, ...]()
            if revision == HEAD:
                problems += _differences(connection)
            elif revision in KNOWN_REVISIONS:  # otherwise it is newer, but compatible with this version
                problems.append(f"the revision is {revision}, not {HEAD}: run capset db upgrade")
            if revision not in KNOWN_REVISIONS or revision >= OLDEST_USABLE:
                missing = missing_tables(connection)
                problems += [problem for name in missing if (problem := f"the table {name} is missing") not in problems]
            problems += [
                f"{item} is not capset's: remove it unless you know its effect" for item in foreign_objects(connection)
            ]
            if verify and revision in KNOWN_REVISIONS and revision < OLDEST_USABLE:
                problems.append("the chain was not verified: upgrade the database first")
            elif verify and missing:
                problems.append("the chain was not verified: a table is missing")
            elif verify:
                verification = verify_chain(connection, (), ())
                if verification.ok:
                    comparison = _compare_acts(connection)
                    problems += comparison.problems
                    notes = tuple(comparison.notes)
            return DatabaseCheck(revision, tuple(problems), verification, notes)
    finally:
        reading.dispose()


def _compare_acts(connection: Connection) -> ActComparison:
    """Compare rows with their acts. A row or an act that cannot be read is a problem, too."""
    try:
        return compare_with_acts(connection)
    except (ValueError, TypeError, KeyError, AttributeError):
        return ActComparison(["a key, a person, an agent or an act contains an invalid value"], [])


def _find_damage(connection: Connection) -> list[str]:
    if connection.dialect.name != "sqlite":
        return [f"the index {name} was never finished" for name in invalid_indexes(connection)]
    max_reported = 20  # of each kind
    lines = connection.exec_driver_sql(f"PRAGMA integrity_check({max_reported})").scalars()
    problems = [f"the file is damaged: {line}" for line in lines if line != "ok"]
    orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(max_reported)
    return problems + [f"row {row[1]} of {row[0]} refers to a missing row of {row[2]}" for row in orphans]


def _differences(connection: Connection) -> list[str]:
    return _sqlite_differences(connection) if connection.dialect.name == "sqlite" else _postgres_differences(connection)


def _sqlite_differences(connection: Connection) -> list[str]:
    """Compare the SQL that created each object, which is all that SQLite stores about it."""
    engine = create_engine("sqlite://")
    try:
        with engine.begin() as empty:
            create_schema(empty)
            expected = _statements(empty)
    finally:
        engine.dispose()
    actual = _statements(connection)
    return [
        f"the {name} is missing" if name not in actual else f"the {name} differs from this version's schema"
        for name, statement in sorted(expected.items())
        if actual.get(name) != statement
    ]


def _statements(connection: Connection) -> dict[str, str]:
    rows = connection.exec_driver_sql("SELECT type || ' ' || name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {name: " ".join(str(sql).split()) for name, sql in rows}


def _postgres_differences(connection: Connection) -> list[str]:
    """Compare the server's tables with those in the code."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    context = MigrationContext.configure(connection, opts={"compare_type": True})
    problems: list[str] = []
    for change in compare_metadata(context, metadata):
        # A change is a tuple, or a list of tuples for the changes of one column.
        differences = cast("list[tuple[object, ...]]", change if isinstance(change, list) else [change])
        problems += [
            _describe_change(difference) for difference in differences if not str(difference[0]).startswith("remove_")
        ]  # which would remove additions
    return problems


def _describe_change(change: tuple[object, ...]) -> str:
    """Describe a change such as ``("add_index", Index)``, ``("add_column", …, Column)`` or ``("modify_type", …)``."""
    kind, target = str(change[0]), change[-1]
    if kind.startswith("add_"):
        return f"the {kind.removeprefix('add_')} {getattr(target, 'name', target)} is missing"
    return f"the column {change[2]}.{change[3]} differs from this version's schema"


def back_up(store: SqlStore, file: Path) -> int:
    """Write a consistent copy of the whole database to a new file, and return its size in bytes.

    ``store`` must not be open. Only its owner can read the file, since it contains the key of the arguments' digests.
    The file appears under its name once it is complete and on disk. Raises ``DefinitionError`` if the file already
    exists or its folder does not, and ``StoreError`` if the database cannot be read or is empty, or if the disk is
    full.
    """
    if file.exists():
        raise DefinitionError(f"the file {str(file)!r} already exists", hint="choose another name")
    if not file.parent.is_dir():
        raise DefinitionError(f"the folder {str(file.parent)!r} does not exist", hint="create it first")
    reading = store.make_engines()[1]
    try:
        with store_errors(store.name), reading.begin() as connection:
            if revision_of(connection, store.name) is None:
                raise StoreError(f"the database {store.name!r} is empty", hint="name the database that capset uses")
    finally:
        reading.dispose()
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.", suffix=".part")  # for its owner only
    part = Path(name)
    try:
        with store_errors(store.name):
            store.back_up_to(part)
        os.fsync(descriptor)
        size = part.stat().st_size
    except BaseException:
        os.close(descriptor)  # first: Windows cannot remove or rename an open file
        part.unlink(missing_ok=True)
        raise
    os.close(descriptor)
    part.rename(file)
    _sync(file.parent)
    return size


@dataclass(frozen=True, slots=True)
class Restoration:
    """The result of a restore: the ``last`` record's number, and how many approvals and open requests were ended."""

    last: int
    approvals: int


def restore(store: SqlStore, file: Path, *, now: str) -> Restoration:
    """Create a database from a backup, and end all approvals and open requests in it at ``now`` (ISO 8601 UTC).

    Some of them may have been used, rejected or withdrawn after the backup was made, and it does not say which.
    ``store`` must not be open, and its database must not exist or must have no tables. A database file appears under
    its name only once everything is done. Raises ``DefinitionError`` if the backup is missing or the database already
    exists, and ``StoreError`` if the file is not a backup or the database cannot be written.
    """
    if not file.is_file():
        raise DefinitionError(f"there is no file {str(file)!r}")
    with store_errors(store.name):
        return store.restore_from(file, partial(_end_approvals, now=now, name=str(file)))


def _end_approvals(connection: Connection, *, now: str, name: str) -> Restoration:
    if revision_of(connection, name) is None:
        raise StoreError(f"the backup {name!r} is empty", hint="name a file written by `capset db backup FILE`")
    ended = 0
    if approvals.name in inspect(connection).get_table_names():
        are_open = approvals.c.status.in_(("pending", "approved")) & (approvals.c.expires_at > now)
        ended = connection.execute(update(approvals).where(are_open).values(expires_at=now)).rowcount
    last = connection.exec_driver_sql("SELECT max(seq) FROM records").scalar() or 0
    return Restoration(last, ended)


def _sync(folder: Path) -> None:
    """Flush the folder to disk, so that the new file's name is durable, if the system can open folders."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
