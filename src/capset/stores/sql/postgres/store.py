"""A store in a PostgreSQL database: its URL, its engines, and its opening."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError

from capset.errors import DefinitionError
from capset.stores.sql.postgres.backup import dump
from capset.stores.sql.postgres.engines import locking_engine, reading_engine, writing_engine
from capset.stores.sql.postgres.locks import SessionLeases
from capset.stores.sql.postgres.online import IndexSpec, make_indexes
from capset.stores.sql.postgres.search import WordTable
from capset.stores.sql.store import SqlStore
from capset.stores.sql.writer.writer import BOUND, PATIENCE_SECONDS

SCHEMES: Final = ("postgresql", "postgres")
DRIVER: Final = "psycopg"
"""The one driver, which a URL may name as SQLAlchemy's do: ``postgresql+psycopg://``."""
BUSY_SECONDS: Final = 5.0
"""Time that a write transaction waits for its turn."""
_PATIENCE: Final = PATIENCE_SECONDS / BUSY_SECONDS
_HINT: Final = "write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE; libpq's options may follow a '?'"


def open_postgres(url: str) -> SqlStore:
    """Return the store in the PostgreSQL database that ``postgresql://…`` or ``postgres://…`` names, not yet opened.

    ``postgresql+psycopg://…`` is the same. libpq finds the parts that the URL leaves out: a password in ``PGPASSWORD``
    or ``~/.pgpass``, a host in ``PGHOST``. Raises ``DefinitionError`` for a URL that names no database; no error
    repeats the URL, which may hold a password.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # their text is the URL's
        raise DefinitionError("the store's URL cannot be read", hint=_HINT) from None
    scheme, _, driver = parsed.drivername.partition("+")
    if driver not in ("", DRIVER):
        raise DefinitionError(f"the store's URL names the driver {driver[:40]!r}; there is {DRIVER} only", hint=_HINT)
    if scheme not in SCHEMES or not parsed.database:
        raise DefinitionError("the store's URL names no PostgreSQL database", hint=_HINT)
    return PostgresStore(parsed)


class PostgresStore(SqlStore):
    """A store in one PostgreSQL database. Errors give only its name, neither its host nor its user."""

    def __init__(self, url: URL, *, busy_seconds: float = BUSY_SECONDS, bound: int = BOUND) -> None:
        self._url = url
        self._busy_seconds = busy_seconds
        super().__init__(
            str(url.database),
            leases=SessionLeases(self._connect),
            search=WordTable(),
            bound=bound,
            patience_seconds=busy_seconds * _PATIENCE,
        )

    def make_engines(self) -> tuple[Engine, Engine]:
        """Return the writer's engine and the readers'. Raises ``DefinitionError`` if the driver is not installed."""
        try:
            import psycopg  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ImportError:
            raise DefinitionError(
                "a store in PostgreSQL needs psycopg, which is not installed", hint="pip install 'capset[postgres]'"
            ) from None
        writing = writing_engine(self._url, self._name, busy_seconds=self._busy_seconds)
        return writing, reading_engine(self._url, self._name)

    def copy_into(self, file: Path) -> None:
        """Write a consistent copy, in the format of ``pg_restore``, into an existing empty file."""
        dump(self._url, self._name, file)

    def make_beside_writers(self, indexes: Sequence[IndexSpec]) -> None:
        """Make indexes while others write."""
        make_indexes(self._locking, indexes)

    @cached_property
    def _locking(self) -> Engine:
        return locking_engine(self._url, self._name)

    def _connect(self) -> Connection:
        return self._locking.connect()
