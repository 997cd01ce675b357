"""What the tests of PostgreSQL's own share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from sqlalchemy import make_url

from capset.stores.sql.postgres.engines import ACQUIRE_WRITE_LOCK, lock_key
from capset.stores.sql.postgres.store import PostgresStore
from tests.databases import connected


@asynccontextmanager
async def opened_soon(url: str, *, busy_seconds: float) -> AsyncGenerator[PostgresStore]:
    """Open a store that waits so long for its turn only, and close it again."""
    store = PostgresStore(make_url(url), busy_seconds=busy_seconds)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def writing(url: str) -> Generator[None]:
    """Hold the turn to write, as another process does within a transaction."""
    with connected(url) as connection, connection.transaction():
        connection.execute(ACQUIRE_WRITE_LOCK)
        yield


@contextmanager
def holding_lock_of_makers(url: str) -> Generator[None]:
    """Hold the lock of those who make or upgrade the tables, as anybody can who may connect."""
    with connected(url) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", (lock_key("writes"),))
        yield


def connections(url: str) -> int:
    """Return how many connections of capset's a database has; one that was closed stays until its process has ended."""
    with connected(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'capset'"
        ).fetchone()
    assert row is not None
    return row[0]


def cut_off(url: str) -> int:
    """End every connection of capset's to a database, and return how many there were."""
    with connected(url) as connection:
        row = connection.execute(
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'capset'"
        ).fetchone()
    assert row is not None
    return row[0]
