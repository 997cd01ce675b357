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
from capset.stores.sql.problems import CUT_OFF

OLDEST: Final = 15
"""The oldest supported version of PostgreSQL."""
READERS: Final = 8
"""Maximum number of read connections. By default a server accepts 100 connections from all processes."""
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
_SET: Final = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"
"""Settings for sessions that hold locks, so that the server notices a vanished host and frees its locks."""

TURN: Final = "LOCK TABLE alembic_version IN EXCLUSIVE MODE"
"""Acquires the write lock. Only upgrades write to this table; readers and ``pg_dump`` are not blocked."""
UPGRADES: Final = "capset_upgrades"
"""The execution option of an engine whose transactions create or upgrade the tables."""
_MAKING: Final = "SELECT pg_advisory_xact_lock(%s)"
_IS_MADE: Final = "SELECT to_regclass('alembic_version') IS NOT NULL"

READ_SECONDS: Final = 20.0
"""Time limit for a reader's statement, including the wait for a lock. A long read consists of many statements."""
_READ_LIMIT: Final = (
    "SELECT set_config('statement_timeout', %s, false) FROM pg_settings"
    " WHERE name = 'statement_timeout' AND setting::bigint NOT BETWEEN 1 AND %s"
)
"""Sets the limit unless the server or the role has a stricter one."""

IDLE_SECONDS: Final = 3.0
"""Time after which the server aborts a writer's idle transaction: its process is frozen."""
KEEP_SECONDS: Final = 1.0
"""Interval at which a writer checks that it still holds its lock."""
SETTLED_SECONDS: Final = 5.0
"""Time after a server's start within which live writers reacquire their locks."""
_AGAIN_SECONDS: Final = (0.0, 0.05, 0.1, 0.2)
"""Pauses before each test of a lock: a server takes some milliseconds to notice that a process died."""

_AGE: Final = "SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8"
_TRY: Final = "SELECT pg_try_advisory_lock(%s)"
_FREE: Final = "SELECT pg_advisory_unlock_all()"
_BACKEND: Final = "SELECT pg_backend_pid()"
_ROUNDS: Final = 10
"""Number of transactions that test whether a pooler runs those of one connection in several sessions."""


def lock_key(name: str) -> int:
    """Return the number of a named advisory lock: 64 bits of a hash, distinct from other programs' locks."""
    return int.from_bytes(hashlib.sha256(f"capset {name}".encode()).digest()[:8], signed=True)


_MAKERS: Final = lock_key("writes")
"""The advisory lock for creating or upgrading tables, since there may be no table to lock yet."""


def writing_engine(url: URL, name: str, *, busy_seconds: float) -> Engine:
    """Return the engine of the write connection. A transaction waits ``busy_seconds`` for the write lock."""
    ended: WeakSet[Any] = WeakSet()
    is_made = False

    def prepare(raw: Any) -> None:  # psycopg's connection, which is not imported here
        _check_session(raw, url, name)
        raw.add_notice_handler(partial(_note_end, raw, ended))
        idle, busy = (max(1, round(seconds * 1000)) for seconds in (IDLE_SECONDS, busy_seconds))
        raw.execute(f"{_SET}; SET idle_in_transaction_session_timeout = {idle}; SET lock_timeout = {busy}")
        # Unchanged if it is stricter than `on`: then a commit waits until a standby shows the data.
        raw.execute(
            "SELECT set_config('synchronous_commit', 'on', false)"
            " WHERE current_setting('synchronous_commit') <> 'remote_apply'"
        )

    def begun(connection: Connection) -> None:
        nonlocal is_made
        is_made = is_made or connection.exec_driver_sql(_IS_MADE).scalar_one()
        if not is_made or connection.get_execution_options().get(UPGRADES):
            connection.exec_driver_sql(_MAKING, (_MAKERS,))
            is_made = connection.exec_driver_sql(_IS_MADE).scalar_one()
        if is_made:
            connection.exec_driver_sql(TURN)

    # Not the server's default: a snapshot from before the write lock would not show what was written until then.
    isolation = "READ COMMITTED"
    engine = _engine(url, name, prepare, pool_size=1, max_overflow=0, pool_pre_ping=True, isolation_level=isolation)
    event.listen(engine, "begin", begun)
    event.listen(engine, "handle_error", partial(_name_end, ended), retval=True)
    return engine


def _note_end(raw: Any, ended: WeakSet[Any], diagnostic: Any) -> None:
    """Note that the server closed a connection during a transaction.

    If libpq reads this message together with a response, it reports it as a notice, and the next statement fails
    without giving the reason.
    """
    if diagnostic.sqlstate == CUT_OFF:
        ended.add(raw)


def _name_end(ended: WeakSet[Any], context: ExceptionContext) -> BaseException | None:
    """Replace the error of the next statement with the server's reason for closing the connection."""
    raw = context.connection and context.connection.connection.driver_connection
    if raw not in ended:
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
    half = READERS // 2
    # No ping before each read: a read whose connection was closed in the meantime is retried.
    return _engine(url, name, prepare, pool_size=half, max_overflow=half, isolation_level=isolation)


def locking_engine(url: URL, name: str) -> Engine:
    """Return the engine of connections that hold locks until they are closed."""
    return _engine(url, name, lambda raw: raw.execute(_SET), poolclass=NullPool, isolation_level="AUTOCOMMIT")


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
    """Raise ``StoreError`` unless the server is new enough and the database can store any text."""
    version = raw.info.server_version // 10_000
    if version < OLDEST:
        raise StoreError(
            f"the database {name!r} is on PostgreSQL {version}; capset needs {OLDEST} or newer",
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
    backend = _backend(raw)
    if backend == raw.info.backend_pid:
        return
    with contextlib.closing(locking_engine(url, name).connect()) as other:
        other.exec_driver_sql("BEGIN")
        is_shared = other.exec_driver_sql(_BACKEND).scalar_one() == backend
        if is_shared or any(_backend(raw) != backend for _ in range(_ROUNDS)):
            raise StoreError(
                f"the database {name!r} is behind a pooler that does not preserve sessions, such as PgBouncer with "
                "pool_mode=transaction; capset needs sessions for notifications and locks",
                hint="connect to the server directly, or set pool_mode=session for capset's user or database",
            )


def _backend(raw: Any) -> int:
    """Return the id of the server process that runs the next transaction of a connection."""
    (process,) = raw.execute(_BACKEND).fetchone()
    raw.commit()
    return process


class SessionLeases:
    """The advisory locks of a database's writers. ``connect`` opens a dedicated connection in autocommit mode."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._guard = threading.Lock()
        self._connection: Connection | None = None
        self._held = False
        self._ended: threading.Event | None = None
        """Ends the thread that keeps the lock."""

    def take(self, writer: str) -> None:
        """Acquire this writer's lock and keep it, unless it is held already. Propagates database errors."""
        with self._guard:
            if self._connection is not None:
                return
            self._ensure(writer)
            if self._ended is None:
                self._ended = threading.Event()
                keep = threading.Thread(target=self._hold, args=(writer, self._ended), name="capset-lease", daemon=True)
                keep.start()

    def release(self) -> None:
        """Release the lock."""
        if self._ended is not None:
            self._ended.set()
        with self._guard:
            self._ended = None
            if self._connection is not None:
                with contextlib.suppress(DBAPIError):  # then it is already free
                    self._connection.exec_driver_sql(_FREE)
            self._drop()

    def gone(self, writers: Iterable[str]) -> list[str]:
        """Return the dead writers among ``writers``. Waits for live ones to reconnect to a newly started server."""
        remaining, dead = list(writers), list[str]()
        with contextlib.closing(self._connect()) as connection:
            age: float = connection.exec_driver_sql(_AGE).scalar_one()
            time.sleep(max(0.0, SETTLED_SECONDS - age))
            for seconds in _AGAIN_SECONDS:
                time.sleep(seconds)
                dead += [
                    writer for writer in remaining if connection.exec_driver_sql(_TRY, (lock_key(writer),)).scalar_one()
                ]
                remaining = [writer for writer in remaining if writer not in dead]
                if not remaining:
                    break
            connection.exec_driver_sql(_FREE)
        return dead

    def sweep(self) -> None:
        """Do nothing: a free lock leaves no trace."""

    def prepare(self, writer: str) -> None:
        """Do nothing: the server knows who holds its locks."""

    def _hold(self, writer: str, ended: threading.Event) -> None:
        while not ended.wait(KEEP_SECONDS):
            with self._guard, contextlib.suppress(DBAPIError):  # the server is still unreachable
                if not ended.is_set():
                    self._ensure(writer)

    def _ensure(self, writer: str) -> None:
        """Ensure a live connection that holds the lock, unless one of our own lost connections still holds it."""
        if self._connection is not None:
            try:
                self._connection.exec_driver_sql("SELECT 1")
            except DBAPIError:
                self._drop()
        if self._connection is None:
            self._connection = self._connect()
        if not self._held:
            self._held = self._connection.exec_driver_sql(_TRY, (lock_key(writer),)).scalar_one()

    def _drop(self) -> None:
        connection, self._connection, self._held = self._connection, None, False
        if connection is not None:
            connection.close()
