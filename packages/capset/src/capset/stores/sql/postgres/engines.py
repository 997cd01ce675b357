"""Connections to PostgreSQL: one that writes, several that read, and those that hold locks.

Write transactions of all processes are serialized, as by SQLite's ``BEGIN IMMEDIATE``: each begins by acquiring the
write lock, so that it sees everything committed before it, and no other writes happen at the same time. The write lock
is a table lock, which only a role that may write to the table can acquire. Anyone who may connect could acquire an
advisory lock, and see in ``pg_locks`` which ones are held.

Readers never wait for a writer. Each of their transactions sees a consistent snapshot, and none of their statements
takes longer than ``READ_SECONDS``.

Each writer holds an advisory lock as long as its connection lasts. By these locks, writers on several hosts know which
of them are alive.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from capset.errors import StoreError
from capset.stores.sql.postgres.texts import adapt
from capset.stores.sql.problems import IDLE_TIMEOUT

OLDEST_VERSION: Final = 15
"""The oldest supported version of PostgreSQL."""
_OPTIONS: Final = {
    "connect_timeout": "5",
    # So that a server that vanished silently is noticed within a minute.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "application_name": "capset",
}
"""Options for libpq, unless the URL sets them."""
_SET_KEEPALIVES: Final = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"
"""Settings for sessions that hold locks, so that the server notices a vanished host and frees its locks."""

ACQUIRE_WRITE_LOCK: Final = "LOCK TABLE alembic_version IN EXCLUSIVE MODE"
"""Acquires the write lock. Only upgrades write to this table; readers and ``pg_dump`` are not blocked."""
UPGRADES: Final = "capset_upgrades"
"""The execution option of an engine whose transactions create or upgrade the tables."""
_ACQUIRE_SCHEMA_LOCK: Final = "SELECT pg_advisory_xact_lock(%s)"
_HAS_TABLES: Final = "SELECT to_regclass('alembic_version') IS NOT NULL"

READ_SECONDS: Final = 20.0
"""Time limit for a reader's statement, including the wait for a lock. A long read consists of many statements."""
_READ_LIMIT: Final = (
    "SELECT set_config('statement_timeout', %s, false) FROM pg_settings"
    " WHERE name = 'statement_timeout' AND setting::bigint NOT BETWEEN 1 AND %s"
)
"""Sets the limit unless the server or the role has a stricter one."""

IDLE_SECONDS: Final = 3.0
"""Time after which the server aborts a writer's idle transaction: its process is frozen."""
LOCK_CHECK_SECONDS: Final = 1.0
"""Interval at which a writer checks that it still holds its lock."""
RECONNECT_SECONDS: Final = 5.0
"""Time after a server's start within which live writers reacquire their locks."""

_SERVER_AGE: Final = "SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8"
_TRY_LOCK: Final = "SELECT pg_try_advisory_lock(%s)"
_UNLOCK_ALL: Final = "SELECT pg_advisory_unlock_all()"
_BACKEND_PID: Final = "SELECT pg_backend_pid()"


def lock_key(name: str) -> int:
    """Return the number of a named advisory lock: 64 bits of a hash, distinct from other programs' locks."""
    return int.from_bytes(hashlib.sha256(f"capset {name}".encode()).digest()[:8], signed=True)


_SCHEMA_LOCK: Final = lock_key("writes")
"""The advisory lock for creating or upgrading tables, since there may be no table to lock yet."""


def writing_engine(url: URL, name: str, *, busy_seconds: float) -> Engine:
    """Return the engine of the write connection. A transaction waits ``busy_seconds`` for the write lock."""
    closed: WeakSet[Any] = WeakSet()
    has_tables = False

    def prepare(raw: Any) -> None:  # psycopg's connection, which is not imported here
        _check_session(raw, url, name)
        raw.add_notice_handler(partial(_note_closed, raw, closed))
        idle, busy = (max(1, round(seconds * 1000)) for seconds in (IDLE_SECONDS, busy_seconds))
        raw.execute(f"{_SET_KEEPALIVES}; SET idle_in_transaction_session_timeout = {idle}; SET lock_timeout = {busy}")
        # Unchanged if it is stricter than `on`: then a commit waits until a standby shows the data.
        raw.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') <> 'remote_apply'"
        )

    def acquire_locks(connection: Connection) -> None:
        nonlocal has_tables
        has_tables = has_tables or connection.exec_driver_sql(_HAS_TABLES).scalar_one()
        if not has_tables or connection.get_execution_options().get(UPGRADES):
            connection.exec_driver_sql(_ACQUIRE_SCHEMA_LOCK, (_SCHEMA_LOCK,))
            has_tables = connection.exec_driver_sql(_HAS_TABLES).scalar_one()
        if has_tables:
            connection.exec_driver_sql(ACQUIRE_WRITE_LOCK)

    # Not the server's default: a snapshot from before the write lock would not show what was written until then.
    isolation = "READ COMMITTED"
    engine = _engine(url, name, prepare, pool_size=1, max_overflow=0, pool_pre_ping=True, isolation_level=isolation)
    event.listen(engine, "begin", acquire_locks)
    event.listen(engine, "handle_error", partial(_explain_closed, closed), retval=True)
    return engine


def _note_closed(raw: Any, closed: WeakSet[Any], diagnostic: Any) -> None:
    """Note that the server closed a connection during a transaction.

    If libpq reads this message together with a response, it reports it as a notice, and the next statement fails
    without giving the reason.
    """
    if diagnostic.sqlstate == IDLE_TIMEOUT:
        closed.add(raw)


def _explain_closed(closed: WeakSet[Any], context: ExceptionContext) -> BaseException | None:
    """Replace the error of the next statement with the server's reason for closing the connection."""
    raw = context.connection and context.connection.connection.driver_connection
    if raw not in closed:
        return None
    from psycopg.errors import IdleInTransactionSessionTimeout

    reason = IdleInTransactionSessionTimeout("terminating connection due to idle-in-transaction timeout")
    return OperationalError(context.statement, None, reason, connection_invalidated=True)


def reading_engine(url: URL, name: str) -> Engine:
    """Return the engine of the read connections."""

    def prepare(raw: Any) -> None:
        raw.read_only = True
        limit = round(READ_SECONDS * 1000)
        raw.execute(_READ_LIMIT, (str(limit), limit))

    isolation = "REPEATABLE READ"
    # At most 8 connections: by default a server accepts 100 from all processes. No ping before each read: a read whose
    # connection was closed in the meantime is retried.
    return _engine(url, name, prepare, pool_size=4, max_overflow=4, isolation_level=isolation)


def locking_engine(url: URL, name: str) -> Engine:
    """Return the engine of connections that hold locks until they are closed."""
    return _engine(
        url, name, lambda raw: raw.execute(_SET_KEEPALIVES), poolclass=NullPool, isolation_level="AUTOCOMMIT"
    )


def _engine(url: URL, name: str, prepare: Callable[[Any], object], **options: Any) -> Engine:
    """Return an engine that checks that each connection's server is supported, and prepares the connection."""
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={key: value for key, value in _OPTIONS.items() if key not in url.query}
        | {"client_encoding": "utf8"},
        use_native_hstore=False,  # it would need a lookup
        hide_parameters=True,  # in logged errors
        **options,
    )

    def prepare_connection(raw: Any, _record: object) -> None:
        try:
            _check_server(raw, name)
            adapt(raw)
            prepare(raw)
            raw.commit()
        except BaseException:
            raw.close()
            raise

    event.listen(engine, "connect", prepare_connection)
    return engine


def _check_server(raw: Any, name: str) -> None:
    """Raise ``StoreError`` unless the server is new enough and the database can store any text."""
    version = raw.info.server_version // 10_000
    if version < OLDEST_VERSION:
        raise StoreError(
            f"the database {name!r} is on PostgreSQL {version}; capset needs {OLDEST_VERSION} or newer",
            hint="upgrade the server",
        )
    if (encoding := raw.info.parameter_status("server_encoding")) != "UTF8":
        raise StoreError(
            f"the database {name!r} is encoded in {encoding}, which cannot hold every text",
            hint="recreate it with the encoding UTF8",
        )


def _check_session(raw: Any, url: URL, name: str) -> None:
    """Raise ``StoreError`` if a pooler passes server sessions to other connections between two transactions.

    Several writers would then share one lock, and mistake each other for dead or alive. Without a pooler, the server
    reports at the start which of its processes serves the connection; a pooler cannot report that. Such a pooler is
    detected while another connection holds a transaction open: either that connection got this one's session, or this
    one's transactions run in several sessions.
    """
    backend = _backend_pid(raw)
    if backend == raw.info.backend_pid:
        return
    with contextlib.closing(locking_engine(url, name).connect()) as other:
        other.exec_driver_sql("BEGIN")
        is_shared = other.exec_driver_sql(_BACKEND_PID).scalar_one() == backend
        if is_shared or any(_backend_pid(raw) != backend for _ in range(10)):
            raise StoreError(
                f"the database {name!r} is behind a pooler that does not preserve sessions, such as PgBouncer with "
                "pool_mode=transaction; capset needs sessions for notifications and locks",
                hint="connect to the server directly, or set pool_mode=session for capset's user or database",
            )


def _backend_pid(raw: Any) -> int:
    """Return the id of the server process that runs the next transaction of a connection."""
    (process,) = raw.execute(_BACKEND_PID).fetchone()
    raw.commit()
    return process


class SessionLeases:
    """The advisory locks of a database's writers. ``connect`` opens a dedicated connection in autocommit mode."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._guard = threading.Lock()
        self._connection: Connection | None = None
        self._is_held = False
        self._ended: threading.Event | None = None
        """Ends the thread that keeps the lock."""

    def take(self, writer: str) -> None:
        """Acquire this writer's lock and keep it, unless it is held already. Propagates database errors."""
        with self._guard:
            if self._connection is not None:
                return
            self._ensure_lock(writer)
            if self._ended is None:
                self._ended = threading.Event()
                thread = threading.Thread(
                    target=self._keep_lock, args=(writer, self._ended), name="capset-lease", daemon=True
                )
                thread.start()

    def release(self) -> None:
        if self._ended is not None:
            self._ended.set()
        with self._guard:
            self._ended = None
            if self._connection is not None:
                with contextlib.suppress(DBAPIError):  # then it is already free
                    self._connection.exec_driver_sql(_UNLOCK_ALL)
            self._disconnect()

    def dead_writers(self, writers: Iterable[str]) -> list[str]:
        """Return the dead writers among ``writers``. Waits for live ones to reconnect to a newly started server."""
        remaining, dead = list(writers), list[str]()
        with contextlib.closing(self._connect()) as connection:
            age: float = connection.exec_driver_sql(_SERVER_AGE).scalar_one()
            time.sleep(max(0.0, RECONNECT_SECONDS - age))
            for seconds in (0.0, 0.05, 0.1, 0.2):  # a server takes some milliseconds to notice that a process died
                time.sleep(seconds)
                dead += [
                    writer
                    for writer in remaining
                    if connection.exec_driver_sql(_TRY_LOCK, (lock_key(writer),)).scalar_one()
                ]
                remaining = [writer for writer in remaining if writer not in dead]
                if not remaining:
                    break
            connection.exec_driver_sql(_UNLOCK_ALL)
        return dead

    def sweep(self) -> None:
        """Do nothing: a free lock leaves no trace."""

    def prepare(self, writer: str) -> None:
        """Do nothing: the server knows who holds its locks."""

    def _keep_lock(self, writer: str, ended: threading.Event) -> None:
        while not ended.wait(LOCK_CHECK_SECONDS):
            with self._guard, contextlib.suppress(DBAPIError):  # the server is still unreachable
                if not ended.is_set():
                    self._ensure_lock(writer)

    def _ensure_lock(self, writer: str) -> None:
        """Ensure a live connection that holds the lock, unless one of our own lost connections still holds it."""
        if self._connection is not None:
            try:
                self._connection.exec_driver_sql("SELECT 1")
            except DBAPIError:
                self._disconnect()
        if self._connection is None:
            self._connection = self._connect()
        if not self._is_held:
            self._is_held = self._connection.exec_driver_sql(_TRY_LOCK, (lock_key(writer),)).scalar_one()

    def _disconnect(self) -> None:
        connection, self._connection, self._is_held = self._connection, None, False
        if connection is not None:
            connection.close()
