"""Checks of a database: its revision, its tables, its indexes, and the record's chain (spec 5, P30).

Read-only, and without opening the store, which would upgrade the database and close interrupted intents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from sqlalchemy import Connection, create_engine

from capset.fingerprint.chain import Verification
from capset.stores.sql.audit.log import verified
from capset.stores.sql.postgres.online import invalid_indexes
from capset.stores.sql.problems import explained
from capset.stores.sql.schema.creation import make
from capset.stores.sql.schema.revisions import HEAD, KNOWN, revision_of
from capset.stores.sql.schema.tables import metadata
from capset.stores.sql.store import SqlStore

_SHOWN: Final = 20
"""Limit on the reported damages of one kind."""


@dataclass(frozen=True, slots=True)
class DatabaseCheck:
    """The findings: the revision, every problem in a sentence, and the result of ``verify`` if requested."""

    revision: str | None
    problems: tuple[str, ...]
    verification: Verification | None = None

    @property
    def ok(self) -> bool:
        """Whether there are no problems."""
        return not self.problems and (self.verification is None or self.verification.ok)


def check(store: SqlStore, *, verify: bool = False) -> DatabaseCheck:
    """Look for damage, and for differences from this version's schema; with ``verify``, verify the chain too.

    ``store`` is not open; others may have the database open, and continue to work. Additions to a database are no
    problem. Raises ``StoreError`` for one that is of another program, of a newer version, or cannot be read at all.
    """
    reading = store.make_engines()[1]
    try:
        with explained(store.name), reading.begin() as connection:
            revision = revision_of(connection, store.name)
            if revision is None:
                return DatabaseCheck(None, ("the database is empty",))
            problems = _damage(connection)
            if revision == HEAD:
                problems += _differences(connection)
            elif revision in KNOWN:  # otherwise it is newer, and compatible with this version
                problems.append(f"it is of revision {revision}, not {HEAD}: capset db upgrade raises it")
            chain = verified(connection, (), ()) if verify else None
            return DatabaseCheck(revision, tuple(problems), chain)
    finally:
        reading.dispose()


def _damage(connection: Connection) -> list[str]:
    if connection.dialect.name != "sqlite":
        return [f"the index {name} was never finished" for name in invalid_indexes(connection)]
    found = connection.exec_driver_sql(f"PRAGMA integrity_check({_SHOWN})").scalars()
    problems = [f"the file is damaged: {line}" for line in found if line != "ok"]
    orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(_SHOWN)
    return problems + [f"row {row[1]} of {row[0]} refers to a row of {row[2]} that is not there" for row in orphans]


def _differences(connection: Connection) -> list[str]:
    return _of_file(connection) if connection.dialect.name == "sqlite" else _of_server(connection)


def _of_file(connection: Connection) -> list[str]:
    """Compare the statements that made each object, which is all that SQLite knows of it."""
    engine = create_engine("sqlite://")
    try:
        with engine.begin() as empty:
            make(empty, HEAD)
            expected = _statements(empty)
    finally:
        engine.dispose()
    found = _statements(connection)
    return [
        f"the {name} is missing" if name not in found else f"the {name} is not as this version makes it"
        for name, statement in sorted(expected.items())
        if found.get(name) != statement
    ]


def _statements(connection: Connection) -> dict[str, str]:
    rows = connection.exec_driver_sql("SELECT type || ' ' || name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {name: " ".join(str(sql).split()) for name, sql in rows}


def _of_server(connection: Connection) -> list[str]:
    """Compare the server's tables with those in the code."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    context = MigrationContext.configure(connection, opts={"compare_type": True})
    problems: list[str] = []
    for change in compare_metadata(context, metadata):
        # One change is a tuple; those of one column are a list of them.
        ones = cast("list[tuple[object, ...]]", change if isinstance(change, list) else [change])
        problems += [_said(one) for one in ones if not str(one[0]).startswith("remove_")]  # additions
    return problems


def _said(change: tuple[object, ...]) -> str:
    """Describe one: ``("add_index", Index)``, ``("add_column", schema, table, Column)``, ``("modify_type", …)``."""
    kind, what = str(change[0]), change[-1]
    if kind.startswith("add_"):
        return f"the {kind.removeprefix('add_')} {getattr(what, 'name', what)} is missing"
    return f"the column {change[2]}.{change[3]} is not as this version makes it"
