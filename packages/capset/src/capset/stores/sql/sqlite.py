"""SQLite: URLs and engines. Uses WAL, ``synchronous=FULL``, foreign keys, and bounded waits for locks."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, Literal

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from capset.errors import DefinitionError, StoreBusy, StoreError
from capset.stores.sql.documents import Fts5
from capset.stores.sql.events import NoNotifications
from capset.stores.sql.problems import busy_error, explained, is_locked
from capset.stores.sql.store import SqlStore, T
from capset.stores.sql.writer.leases import FileLeases
from capset.stores.sql.writer.writer import BOUND, PATIENCE_SECONDS

PREFIX: Final = "sqlite:///"
BUSY_SECONDS: Final = 5.0
"""How long a transaction waits for locks while other processes commit."""
STUCK_SECONDS: Final = 2.0
"""How long a write transaction waits while no process commits: the process with the lock may be frozen."""
_POLL_SECONDS: Final = 0.01
"""How long SQLite itself waits for a lock in the writer.

If it waited longer, it would poll only every 100 ms. A busy process leaves about a millisecond between two of its
transactions, so waits of several seconds were observed.
"""
_PATIENCE: Final = PATIENCE_SECONDS / BUSY_SECONDS
_MAKING: Final = threading.Lock()


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

    def __init__(self, name: str, *, busy_seconds: float = BUSY_SECONDS, bound: int = BOUND) -> None:
        # Resolved, so that two paths of one file share its leases, and a later chdir() changes nothing.
        self._path = Path(name).resolve()
        self._busy_seconds = busy_seconds
        self._file_leases = FileLeases(self._path.with_name(self._path.name + "-writers"))
        super().__init__(
            name,
            leases=self._file_leases,
            search=Fts5(),
            notifications=NoNotifications(),
            bound=bound,
            patience_seconds=busy_seconds * _PATIENCE,
        )

    def make_engines(self) -> tuple[Engine, Engine]:
        """Return the engines of the writer and of the readers. Raises ``StoreError`` if the file cannot exist."""
        if not self._path.parent.is_dir():
            raise StoreError(f"the folder of the database {self._name!r} does not exist", hint="create it first")
        if self._path.is_dir():
            raise StoreError(f"the database {self._name!r} is a directory", hint="name a file, such as capset.db in it")
        writing = make_engine(self._path, "IMMEDIATE", busy_seconds=self._busy_seconds, stuck=self._stuck)
        event.listen(writing, "begin", self._begun)
        event.listen(writing, "checkin", self._ended)
        return writing, make_engine(self._path, "DEFERRED", busy_seconds=self._busy_seconds)

    def _begun(self, _connection: Connection) -> None:
        self._file_leases.begun()

    def _ended(self, _raw: sqlite3.Connection, _record: object) -> None:
        self._file_leases.ended()

    def _stuck(self) -> StoreBusy:
        return busy_error(self._name, self._file_leases.holder() or "another process")

    def copy_into(self, file: Path) -> None:
        """Write a consistent copy into an existing empty file."""
        with (
            closing(sqlite3.connect(self._path, timeout=self._busy_seconds)) as source,
            closing(sqlite3.connect(file)) as copy,
        ):
            # In one step: a copy in several steps would start over after every commit of a writer.
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # a single file
            if copy.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                raise StoreError(f"the database {self._name!r} is damaged", hint="run capset db check to see where")

    def fill_from(self, file: Path, finish: Callable[[Connection], T]) -> T:
        """Create the file from a copy. It appears under its name once ``finish`` has changed it."""
        if not self._path.parent.is_dir():
            raise DefinitionError(f"the folder of the database {self._name!r} does not exist", hint="create it first")
        if any(self._path.with_name(self._path.name + end).exists() for end in ("", "-wal", "-shm", "-journal")):
            raise DefinitionError(
                f"the database {self._name!r} already exists, or a file -wal, -shm or -journal of it",
                hint="stop the processes that use it, and move all of these away",
            )
        number, name = tempfile.mkstemp(dir=self._path.parent, prefix=f"{self._path.name}.", suffix=".part")
        os.close(number)
        part = Path(name)
        engine = make_engine(part, "IMMEDIATE", busy_seconds=self._busy_seconds)
        try:
            with (
                explained(str(file)),
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
    stuck: Callable[[], Exception] | None = None,
) -> Engine:
    """Return an engine: ``IMMEDIATE`` for writing, with one connection, ``DEFERRED`` for reading.

    ``stuck`` returns the error to raise when no process has committed for ``STUCK_SECONDS``.
    """
    writes = begin == "IMMEDIATE"
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={
            "timeout": min(busy_seconds, _POLL_SECONDS) if writes else busy_seconds,
            "isolation_level": None,
            "check_same_thread": False,
        },
        pool_size=1 if writes else 4,
        max_overflow=0 if writes else 28,  # as many as asyncio's threads
    )

    def connecting(*_: object) -> None:
        _make_private(path)

    def connected(raw: sqlite3.Connection, _record: object) -> None:
        raw.execute("PRAGMA foreign_keys = ON")
        # This reads the file, which another process may be switching to WAL at this moment.
        _waiting(lambda: raw.execute("PRAGMA synchronous = FULL"), busy_seconds)
        if writes:
            _waiting(lambda: _use_wal(raw), busy_seconds)
        else:
            raw.execute("PRAGMA query_only = ON")

    def begun(connection: Connection) -> None:
        # The driver does not begin transactions (isolation_level=None): its own BEGIN would be deferred, and a deferred
        # transaction that starts to write can fail where an immediate one waits.
        progress = _Progress(connection, stuck) if stuck is not None else None
        _waiting(lambda: connection.exec_driver_sql(f"BEGIN {begin}"), busy_seconds, progress)

    event.listen(engine, "do_connect", connecting)
    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    return engine


def _make_private(path: Path) -> None:
    """Create the file with mode 0600 if it does not exist. SQLite gives its other files the same mode.

    Errors are left to SQLite, which reports them when it connects. An existing file is never opened here: closing it
    would release the locks that this process holds on it. For the same reason, other threads cannot connect until a
    new file is closed.
    """
    with _MAKING, suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


class _Progress:
    """Detects commits of other processes while this one waits for the lock."""

    def __init__(self, connection: Connection, stuck: Callable[[], Exception]) -> None:
        self._connection = connection
        self._stuck = stuck
        self._version: int | None = None
        self._since = 0.0

    def check(self) -> None:
        """Raise an error if no process has committed for ``STUCK_SECONDS``, counted from the first check."""
        version: int = self._connection.exec_driver_sql("PRAGMA data_version").scalar_one()
        now = time.monotonic()
        if version != self._version:
            self._version, self._since = version, now
        elif now >= self._since + STUCK_SECONDS:
            raise self._stuck()


def _waiting(run: Callable[[], object], seconds: float, progress: _Progress | None = None) -> None:
    """Run a function, retrying for at most ``seconds`` while another process holds a lock that it needs."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            run()
        except (DBAPIError, sqlite3.Error) as error:
            if not is_locked(error) or time.monotonic() >= deadline:
                raise
            if progress is not None:
                progress.check()
            time.sleep(0.001)
        else:
            return


def _use_wal(raw: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite does not wait for a lock here, and two processes may open a new file at once."""
    row: tuple[Any, ...] = raw.execute("PRAGMA journal_mode = WAL").fetchone()
    if row[0] != "wal":
        raise StoreError("the database cannot use SQLite's write-ahead log", hint="put it on a local disk")
