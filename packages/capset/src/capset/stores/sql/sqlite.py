"""SQLite: its URL and its engines. WAL, ``synchronous=FULL``, foreign keys, and bounded waiting for locks."""

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
"""Time that a transaction waits for the locks of processes that come and go."""
STUCK_SECONDS: Final = 2.0
"""Time that a write transaction waits while no process commits: the one with the lock may be frozen."""
_POLL_SECONDS: Final = 0.01
"""Time that SQLite itself waits in the writer.

Left to it for longer, it would poll every 100 ms only, and between two transactions of a busy process there is a
millisecond: it was seen to wait for seconds.
"""
_PATIENCE: Final = PATIENCE_SECONDS / BUSY_SECONDS
_MAKING: Final = threading.Lock()


def open_sqlite(url: str) -> SqlStore:
    """Return the store in the SQLite file that ``sqlite:///RELATIVE`` or ``sqlite:////ABSOLUTE`` names, not yet opened.

    The file is made when the store is opened, for its owner alone: it holds records of calls and the key of their
    digests. Raises ``DefinitionError`` for a URL that names no file.
    """
    name = url.removeprefix(PREFIX)
    if not url.startswith(PREFIX) or name in ("", ":memory:"):
        raise DefinitionError(
            f"the store {url!r} names no file",
            hint="write it as sqlite:///capset.db; to keep nothing, use memory://",
        )
    if "?" in name or "#" in name or "\0" in name:
        raise DefinitionError(
            f"the store {url!r} has options; there are none", hint="a file's name must not hold '?' or '#'"
        )
    return SqliteStore(name)


class SqliteStore(SqlStore):
    """A store in one SQLite file. ``name`` is its path as its user gave it, which errors repeat."""

    def __init__(self, name: str, *, busy_seconds: float = BUSY_SECONDS, bound: int = BOUND) -> None:
        # Resolved, so that two names of one file share its leases, and a later chdir() changes nothing.
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
        """Return the writer's engine and the readers'. Raises ``StoreError`` if there cannot be such a file."""
        if not self._path.parent.is_dir():
            raise StoreError(f"the folder of the database {self._name!r} does not exist", hint="make the folder first")
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
            # In one step: a copy in several steps would begin again with each commit of a writer, without end.
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, with none beside it
            if copy.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                raise StoreError(f"the database {self._name!r} is damaged", hint="capset db check says where")

    def fill_from(self, file: Path, finish: Callable[[Connection], T]) -> T:
        """Make the file of a copy; it appears under its name once ``finish`` has changed it."""
        if not self._path.parent.is_dir():
            raise DefinitionError(f"the folder of the database {self._name!r} does not exist", hint="make it first")
        if any(self._path.with_name(self._path.name + end).exists() for end in ("", "-wal", "-shm", "-journal")):
            raise DefinitionError(
                f"there is a database {self._name!r} already, or a file -wal, -shm or -journal beside it",
                hint="end its processes, and move all of these away",
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
            engine.dispose()  # with its last connection, SQLite removes the files beside it
            os.link(part, self._path)  # which writes over no other
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
    """Return an engine that begins transactions so: ``IMMEDIATE`` to write, one connection; ``DEFERRED`` to read.

    ``stuck`` makes the error that is raised when no process has committed for ``STUCK_SECONDS``.
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
        # It reads the file, which another process may be switching to WAL at this moment.
        _waiting(lambda: raw.execute("PRAGMA synchronous = FULL"), busy_seconds)
        if writes:
            _waiting(lambda: _use_wal(raw), busy_seconds)
        else:
            raw.execute("PRAGMA query_only = ON")

    def begun(connection: Connection) -> None:
        # The driver begins no transaction by itself here (isolation_level=None): its own BEGIN would be deferred, and a
        # deferred transaction that begins to write can fail where an immediate one waits.
        progress = _Progress(connection, stuck) if stuck is not None else None
        _waiting(lambda: connection.exec_driver_sql(f"BEGIN {begin}"), busy_seconds, progress)

    event.listen(engine, "do_connect", connecting)
    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    return engine


def _make_private(path: Path) -> None:
    """Make the file with mode 0600 if there is none. SQLite gives the files beside it the same mode.

    SQLite tells of a folder in which no file can be made. A file that is there is never opened: to close it would
    release the locks that this process has on it. The lock keeps others from connecting until a new one is closed.
    """
    with _MAKING, suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


class _Progress:
    """The commits of other processes, as one that waits for their lock sees them."""

    def __init__(self, connection: Connection, stuck: Callable[[], Exception]) -> None:
        self._connection = connection
        self._stuck = stuck
        self._version: int | None = None
        self._since = 0.0

    def check(self) -> None:
        """Raise an error if there has been no commit for ``STUCK_SECONDS``, counted from the first check."""
        version: int = self._connection.exec_driver_sql("PRAGMA data_version").scalar_one()
        now = time.monotonic()
        if version != self._version:
            self._version, self._since = version, now
        elif now >= self._since + STUCK_SECONDS:
            raise self._stuck()


def _waiting(run: Callable[[], object], seconds: float, progress: _Progress | None = None) -> None:
    """Run a function, retrying while another process holds a lock that it needs, for at most this many seconds."""
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
