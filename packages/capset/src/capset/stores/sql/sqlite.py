"""SQLite: URLs and engines. Uses WAL, ``synchronous=FULL``, foreign keys, and bounded waits for locks."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from capset.errors import DefinitionError, StoreBusy, StoreError
from capset.stores.sql.documents import Fts5
from capset.stores.sql.events import NoNotifications
from capset.stores.sql.problems import busy_error, is_locked, store_errors
from capset.stores.sql.store import SqlStore, T
from capset.stores.sql.writer.leases import FileLeases
from capset.stores.sql.writer.writer import MAX_QUEUED, PATIENCE_SECONDS

PREFIX: Final = "sqlite:///"
BUSY_SECONDS: Final = 5.0
"""How long a transaction waits for locks while other processes commit."""
STUCK_SECONDS: Final = 2.0
"""How long a write transaction waits while no process commits: the process with the lock may be frozen."""
_CREATE_LOCK: Final = threading.Lock()


def open_sqlite(url: str) -> SqlStore:
    """Return the store in the SQLite file that ``sqlite:///RELATIVE`` or ``sqlite:////ABSOLUTE`` names, not yet opened.

    The file is created when the store is opened, readable by its owner only: it contains records of calls and the key
    of their digests. Raises ``DefinitionError`` for a URL without a file name.
    """
    name = url.removeprefix(PREFIX)
    if not url.startswith(PREFIX) or name in ("", ":memory:"):
        raise DefinitionError(
            f"the store {url!r} names no file",
            hint="write a URL such as sqlite:///capset.db; to keep nothing, use memory://",
        )
    if "?" in name or "#" in name or "\0" in name:
        raise DefinitionError(
            f"the store {url!r} has options; there are none", hint="a file name must not contain '?' or '#'"
        )
    return SqliteStore(name)


class SqliteStore(SqlStore):
    """A store in one SQLite file. ``name`` is its path as the user gave it, for error messages."""

    def __init__(self, name: str, *, busy_seconds: float = BUSY_SECONDS, max_queued: int = MAX_QUEUED) -> None:
        # Resolved, so that two paths of one file share its leases, and a later chdir() changes nothing.
        self._path = Path(name).resolve()
        self._busy_seconds = busy_seconds
        self._file_leases = FileLeases(self._path.with_name(self._path.name + "-writers"))
        super().__init__(
            name,
            leases=self._file_leases,
            search=Fts5(),
            notifications=NoNotifications(),
            max_queued=max_queued,
            patience_seconds=busy_seconds * PATIENCE_SECONDS / BUSY_SECONDS,
        )

    def make_engines(self) -> tuple[Engine, Engine]:
        """Return the engines of the writer and of the readers. Raises ``StoreError`` if the file cannot exist."""
        if not self._path.parent.is_dir():
            raise StoreError(f"the folder of the database {self.name!r} does not exist", hint="create it first")
        if self._path.is_dir():
            raise StoreError(f"the database {self.name!r} is a directory", hint="name a file, such as capset.db in it")
        writing = make_engine(
            self._path, "IMMEDIATE", busy_seconds=self._busy_seconds, make_stuck_error=self._make_stuck_error
        )
        event.listen(writing, "begin", lambda *_: self._file_leases.mark_writing())
        event.listen(writing, "checkin", lambda *_: self._file_leases.mark_idle())
        return writing, make_engine(self._path, "DEFERRED", busy_seconds=self._busy_seconds)

    def _make_stuck_error(self) -> StoreBusy:
        return busy_error(self.name, self._file_leases.holder() or "another process")

    def back_up_to(self, file: Path) -> None:
        with (
            closing(sqlite3.connect(self._path, timeout=self._busy_seconds)) as source,
            closing(sqlite3.connect(file)) as copy,
        ):
            # In one step: a copy in several steps would start over after every commit of a writer.
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # a single file
            if copy.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                raise StoreError(f"the database {self.name!r} is damaged", hint="run capset db check to see where")

    def restore_from(self, file: Path, finish: Callable[[Connection], T]) -> T:
        """Create the file from a copy. It appears under its name once ``finish`` has changed it."""
        if not self._path.parent.is_dir():
            raise DefinitionError(f"the folder of the database {self.name!r} does not exist", hint="create it first")
        if any(self._path.with_name(self._path.name + end).exists() for end in ("", "-wal", "-shm", "-journal")):
            raise DefinitionError(
                f"the database {self.name!r} already exists, or a file -wal, -shm or -journal of it",
                hint="stop the processes that use it, and move all of these away",
            )
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=f"{self._path.name}.", suffix=".part")
        os.close(descriptor)
        part = Path(name)
        engine = make_engine(part, "IMMEDIATE", busy_seconds=self._busy_seconds)
        try:
            with (
                store_errors(str(file)),
                closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as copy,
                closing(sqlite3.connect(part)) as target,
            ):
                copy.backup(target)
            with engine.begin() as connection:
                result = finish(connection)
            engine.dispose()  # on closing the last connection, SQLite removes its other files
            os.link(part, self._path)  # fails if the path exists
            return result
        finally:
            engine.dispose()
            part.unlink()


def make_engine(
    path: Path,
    begin: Literal["IMMEDIATE", "DEFERRED"],
    *,
    busy_seconds: float = BUSY_SECONDS,
    make_stuck_error: Callable[[], Exception] | None = None,
) -> Engine:
    """Return an engine: ``IMMEDIATE`` for writing, with one connection, ``DEFERRED`` for reading.

    ``make_stuck_error`` returns the error to raise when no process has committed for ``STUCK_SECONDS``.
    """
    writes = begin == "IMMEDIATE"
    # In the writer, SQLite itself waits for 10 ms only: in a longer wait, it would poll every 100 ms. A busy process
    # leaves about a millisecond between two of its transactions, so waits of several seconds were observed.
    sqlite_seconds = min(busy_seconds, 0.01) if writes else busy_seconds
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": sqlite_seconds, "isolation_level": None, "check_same_thread": False},
        pool_size=1 if writes else 4,
        max_overflow=0 if writes else 28,  # as many as asyncio's threads
    )

    def create_file(*_: object) -> None:
        _create_private_file(path)

    def configure(raw: sqlite3.Connection, _record: object) -> None:
        raw.execute("PRAGMA foreign_keys = ON")
        # This reads the file, which another process may be switching to WAL at this moment.
        _retry_while_locked(lambda: raw.execute("PRAGMA synchronous = FULL"), busy_seconds)
        if writes:
            _retry_while_locked(lambda: _use_wal(raw), busy_seconds)
        else:
            raw.execute("PRAGMA query_only = ON")

    def begin_transaction(connection: Connection) -> None:
        # The driver does not begin transactions (isolation_level=None): its own BEGIN would be deferred, and a deferred
        # transaction that starts to write can fail where an immediate one waits.
        commit_watch = _CommitWatch(connection, make_stuck_error) if make_stuck_error is not None else None
        _retry_while_locked(lambda: connection.exec_driver_sql(f"BEGIN {begin}"), busy_seconds, commit_watch)

    event.listen(engine, "do_connect", create_file)
    event.listen(engine, "connect", configure)
    event.listen(engine, "begin", begin_transaction)
    return engine


def _create_private_file(path: Path) -> None:
    """Create the file with mode 0600 if it does not exist. SQLite gives its other files the same mode.

    Errors are left to SQLite, which reports them when it connects. An existing file is never opened here: closing it
    would release the locks that this process holds on it. For the same reason, other threads cannot connect until a
    new file is closed.
    """
    with _CREATE_LOCK, suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


@dataclass(slots=True)
class _CommitWatch:
    """Detects commits of other processes while this one waits for the lock."""

    connection: Connection
    make_stuck_error: Callable[[], Exception]
    version: int | None = None
    since: float = 0.0

    def check(self) -> None:
        """Raise an error if no process has committed for ``STUCK_SECONDS``, counted from the first check."""
        version: int = self.connection.exec_driver_sql("PRAGMA data_version").scalar_one()
        now = time.monotonic()
        if version != self.version:
            self.version, self.since = version, now
        elif now >= self.since + STUCK_SECONDS:
            raise self.make_stuck_error()


def _retry_while_locked(run: Callable[[], object], seconds: float, commit_watch: _CommitWatch | None = None) -> None:
    """Run a function, retrying for at most ``seconds`` while another process holds a lock that it needs."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            run()
        except (DBAPIError, sqlite3.Error) as error:
            if not is_locked(error) or time.monotonic() >= deadline:
                raise
            if commit_watch is not None:
                commit_watch.check()
            time.sleep(0.001)
        else:
            return


def _use_wal(raw: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite does not wait for a lock here, and two processes may open a new file at once."""
    row: tuple[Any, ...] = raw.execute("PRAGMA journal_mode = WAL").fetchone()
    if row[0] != "wal":
        raise StoreError("the database cannot use SQLite's write-ahead log", hint="put it on a local disk")
