"""Indexes that are created while PostgreSQL's writers work, without the write lock (spec 5, P30).

``CREATE INDEX CONCURRENTLY`` waits for all older transactions. Therefore processes poll the lock that keeps two
upgrades apart: the lock's holder would wait for a process that waits for the lock within a statement.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, Engine

from capset.stores.sql.postgres.engines import lock_key

IndexSpec = tuple[str, str, tuple[str, ...], str | None]
"""A name, a table, columns, and the condition of a partial index: an item of a migration's ``INDEXES``."""

_LOCK: Final = lock_key("indexes")
_INVALID: Final = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
    " WHERE NOT i.indisvalid AND c.relnamespace = quote_ident(current_schema())::regnamespace ORDER BY c.relname"
)


def make_indexes(engine: Engine, indexes: Sequence[IndexSpec]) -> None:
    """Create the indexes that are missing, one by one. ``engine`` is in autocommit mode.

    Unfinished indexes are created again. Propagates database errors.
    """
    with engine.connect() as connection:
        while not connection.exec_driver_sql("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).scalar_one():
            time.sleep(0.2)  # another process creates indexes
        # A server may abort long statements, and these take long.
        connection.exec_driver_sql("SET statement_timeout = 0")
        connection.exec_driver_sql("SET lock_timeout = 0")
        broken = invalid_indexes(connection)
        for name, table, columns, condition in indexes:
            if name in broken:
                connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            where = f" WHERE {condition}" if condition else ""
            on = f"{table} ({', '.join(columns)}){where}"
            connection.exec_driver_sql(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {on}")
        # Closing this dedicated connection frees the lock.


def invalid_indexes(connection: Connection) -> list[str]:
    """Return the unfinished indexes of the schema, which slow writers down and do not help readers."""
    return list(connection.exec_driver_sql(_INVALID).scalars())
