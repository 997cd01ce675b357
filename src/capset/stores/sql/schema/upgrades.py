"""Upgrades of a database to this version's revision (spec 5, P30)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Engine

from capset.stores.sql.postgres.online import IndexSpec
from capset.stores.sql.problems import explained
from capset.stores.sql.schema.revisions import HEAD, KNOWN, is_large, prepare, raise_to, revision_of
from capset.stores.sql.store import SqlStore

_ONLINE: Final = "INDEXES"
"""The name of a migration's indexes, if it makes nothing else that the code depends on."""


@dataclass(frozen=True, slots=True)
class UpgradeStep:
    """One migration: its revision, its effect in a sentence, and whether writers continue while it runs."""

    revision: str
    does: str
    beside_writers: bool


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """The revision of a database, ``None`` for an empty one, and the steps to this version's, in order."""

    before: str | None
    steps: tuple[UpgradeStep, ...]


def plan(store: SqlStore) -> UpgradePlan:
    """Return the steps of ``upgrade`` without changing anything. Raises ``StoreError`` as ``Store.open`` does."""
    _, reading = store.make_engines()
    try:
        with explained(store.name), reading.begin() as connection:
            return _plan(connection, store.name)
    finally:
        reading.dispose()


def upgrade(store: SqlStore) -> UpgradePlan:
    """Upgrade a database, even an empty one, to this version's revision, and return the steps taken.

    ``store`` is not open; others may have the database open, and continue to work. Raises ``StoreError`` as
    ``Store.open`` does.
    """
    writing, reading = store.make_engines()
    try:
        with explained(store.name):
            with writing.connect():
                pass  # the first connection makes the file
            with reading.begin() as connection:
                done = _plan(connection, store.name)
            if not done.steps or not all(step.beside_writers for step in done.steps):
                prepare(reading, writing, store.name)
            if any(step.beside_writers for step in done.steps):
                _finish(store, writing)
        return done
    finally:
        writing.dispose()
        reading.dispose()


def _plan(connection: Connection, name: str) -> UpgradePlan:
    before = revision_of(connection, name)
    if before == HEAD or (before is not None and before not in KNOWN):  # newer, and compatible with this version
        return UpgradePlan(before, ())
    large = before is not None and is_large(connection)
    steps = [
        UpgradeStep(revision, does, beside_writers=large and indexes is not None)
        for revision, does, indexes in migrations()
        if before is None or revision > before
    ]
    return UpgradePlan(before, tuple(steps))


def _finish(store: SqlStore, writing: Engine) -> None:
    """Make the indexes that opening leaves out, and then record that they exist."""
    for _, _, indexes in migrations():
        if indexes is not None:
            store.make_beside_writers(indexes)
    with writing.begin() as connection:
        if revision_of(connection, store.name) in KNOWN - {HEAD}:  # otherwise another process was faster
            raise_to(connection, HEAD)


def migrations() -> list[tuple[str, str, tuple[IndexSpec, ...] | None]]:
    """Return the revision, the first sentence and the indexes of each migration, in order."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", "capset.stores.sql:migrations")
    found = reversed(list(ScriptDirectory.from_config(config).walk_revisions()))
    return [(one.revision, " ".join(one.doc.split()), getattr(one.module, _ONLINE, None)) for one in found]
