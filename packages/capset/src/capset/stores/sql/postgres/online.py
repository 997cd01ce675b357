"""Indexes that are made beside PostgreSQL's writers, outside their turns (spec 5, P30).

``CREATE INDEX CONCURRENTLY`` waits for every transaction that is older than itself. So the lock that keeps two upgrades
apart is polled: its holder would wait for any process that waits for it within a statement.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, Engine

from capset.stores.sql.postgres.engines import lock_key

POLL_SECONDS: Final = 0.2
"""Interval of polling the lock while another process makes indexes."""

IndexSpec = tuple[str, str, tuple[str, ...], str | None]
"""A name, a table, columns, and the condition of a partial index: a line of a migration's ``INDEXES``."""

_LOCK: Final = lock_key("indexes")
_INVALID: Final = (
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
    " WHERE NOT i.indisvalid AND c.relnamespace = quote_ident(current_schema())::regnamespace ORDER BY c.relname"
)


def make_indexes(engine: Engine, indexes: Sequence[IndexSpec]) -> None:
    """Make the missing ones of the indexes, one after the other; ``engine`` opens no transactions.

    An unfinished index is made again. Propagates errors of the database.
    """
    with engine.connect() as connection:
        while not connection.exec_driver_sql("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).scalar_one():
            time.sleep(POLL_SECONDS)
        # A server may end long statements; this one is long by nature.
        connection.exec_driver_sql("SET statement_timeout = 0")
        connection.exec_driver_sql("SET lock_timeout = 0")
        broken = invalid_indexes(connection)
        for name, table, columns, condition in indexes:
            if name in broken:
                connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            where = f" WHERE {condition}" if condition else ""
            on = f"{table} ({', '.join(columns)}){where}"
            connection.exec_driver_sql(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {on}")
        # The lock is freed when this dedicated connection ends.


def invalid_indexes(connection: Connection) -> list[str]:
    """Return the unfinished indexes of the schema: they cost writers, and help no reader."""
    return list(connection.exec_driver_sql(_INVALID).scalars())
