"""Connections to PostgreSQL: one that writes, some that read, and those that hold locks.

Writers take turns: every write transaction begins by waiting for one lock of the database, so that each, in any
process, sees everything committed before it and no other writes beside it, as with SQLite's ``BEGIN IMMEDIATE``.
Readers never wait, and each of their transactions sees a consistent snapshot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from capset.errors import StoreError
from capset.stores.sql.postgres.adapters import adapt

OLDEST: Final = 15
"""The first version of PostgreSQL that capset works with."""
READERS: Final = 8
"""Limit on connections that read at once; by default a server accepts 100 from all processes."""
_OPTIONS: Final = {
    "connect_timeout": "5",
    # So that a server that vanished silently is noticed within a minute, on both sides.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "application_name": "capset",
}
"""Options for libpq, unless the URL sets them."""
_SET: Final = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"
"""Settings for sessions that hold locks, so that the server notices a vanished host, and frees its locks."""

_TURN: Final = "SELECT pg_advisory_xact_lock(%s)"


def lock_key(name: str) -> int:
    """Return the number of the advisory lock of a name: 64 bits of a hash, distinct from other programs' locks."""
    return int.from_bytes(hashlib.sha256(f"capset {name}".encode()).digest()[:8], signed=True)


_WRITERS: Final = lock_key("writes")


def writing_engine(url: URL, name: str, *, busy_seconds: float) -> Engine:
    """Return the engine of the one connection that writes; a transaction waits this long for its turn."""

    def prepare(raw: Any) -> None:  # psycopg's connection, which is not imported here
        raw.execute(f"{_SET}; SET lock_timeout = {max(1, round(busy_seconds * 1000))}")
        # Left as it is if it is stricter than `on`: that a standby shows the data already.
        raw.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') <> 'remote_apply'"
        )

    def begun(connection: Connection) -> None:
        connection.exec_driver_sql(_TURN, (_WRITERS,))

    # Not the server's default: a snapshot from before the turn would not show what was written until then.
    isolation = "READ COMMITTED"
    engine = _engine(url, name, prepare, pool_size=1, max_overflow=0, pool_pre_ping=True, isolation_level=isolation)
    event.listen(engine, "begin", begun)
    return engine


def reading_engine(url: URL, name: str) -> Engine:
    """Return the engine of the connections that read."""

    def prepare(raw: Any) -> None:
        raw.read_only = True

    isolation = "REPEATABLE READ"
    half = READERS // 2
    return _engine(url, name, prepare, pool_size=half, max_overflow=half, pool_pre_ping=True, isolation_level=isolation)


def locking_engine(url: URL, name: str) -> Engine:
    """Return the engine of connections that hold locks, and are closed with them."""
    return _engine(url, name, lambda raw: raw.execute(_SET), poolclass=NullPool, isolation_level="AUTOCOMMIT")


def _engine(url: URL, name: str, prepare: Callable[[Any], object], **options: Any) -> Engine:
    """Return an engine that prepares each connection, and checks that capset can work with its server."""
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={key: value for key, value in _OPTIONS.items() if key not in url.query}
        | {"client_encoding": "utf8"},
        use_native_hstore=False,  # would be looked up
        hide_parameters=True,  # in logged errors
        **options,
    )

    def connected(raw: Any, _record: object) -> None:
        try:
            _check(raw, name)
            adapt(raw)
            prepare(raw)
            raw.commit()
        except BaseException:
            raw.close()
            raise

    event.listen(engine, "connect", connected)
    return engine


def _check(raw: Any, name: str) -> None:
    """Raise ``StoreError`` unless the server is new enough and the database holds any text."""
    version = raw.info.server_version // 10_000
    if version < OLDEST:
        raise StoreError(
            f"the database {name!r} is on PostgreSQL {version}; capset needs {OLDEST} or newer",
            hint="upgrade the server",
        )
    if (encoding := raw.info.parameter_status("server_encoding")) != "UTF8":
        raise StoreError(
            f"the database {name!r} is encoded in {encoding}, which cannot hold every text",
            hint="make it again with the encoding UTF8",
        )
