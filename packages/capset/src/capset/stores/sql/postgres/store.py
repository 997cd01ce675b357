"""A store in a PostgreSQL database: its URL, engines and backups, and notifications between servers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

from sqlalchemy import (
    URL,
    BigInteger,
    Connection,
    Engine,
    Select,
    Text,
    bindparam,
    column,
    func,
    insert,
    inspect,
    make_url,
    select,
    table,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from capset.errors import DefinitionError, StoreError
from capset.extras import install_command
from capset.stores.base import ChangeNotice, NoticeCallback, ScopeKey
from capset.stores.sql.documents import token
from capset.stores.sql.postgres.engines import SessionLeases, locking_engine, reading_engine, writing_engine
from capset.stores.sql.postgres.online import IndexSpec, make_indexes
from capset.stores.sql.problems import is_of_driver
from capset.stores.sql.store import SqlStore, T
from capset.stores.sql.writer.writer import MAX_QUEUED, PATIENCE_SECONDS

CHANNEL: Final = "capset_events"
RECONNECT_SECONDS: Final = 1.0
"""Pause before a lost connection is reopened."""


class PostgresNotifications:
    """Notifications of one database. ``connect`` opens a dedicated connection in autocommit mode."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._own_pid = 0
        """The server process of the sending connection. Notifications from it are our own, and are ignored."""

    def send(self, connection: Connection, session: str) -> None:
        self._own_pid = cast("Any", connection.connection.driver_connection).info.backend_pid
        is_plain = session.isprintable() and len(session) <= 1_000  # characters; the server allows 8,000 bytes
        connection.exec_driver_sql("SELECT pg_notify(%s, %s)", (CHANNEL, session if is_plain else ""))

    @asynccontextmanager
    async def subscribe(self, on_notice: NoticeCallback) -> AsyncGenerator[Callable[[], bool]]:
        """Listen in a thread inside the context, and yield a function that returns whether it is connected."""
        listener = _Listener(self._connect, on_notice, asyncio.get_running_loop(), lambda: self._own_pid)
        listener.start()
        try:
            yield listener.is_connected.is_set
        finally:
            listener.ended.set()
            await asyncio.to_thread(listener.join)


class _Listener(threading.Thread):
    def __init__(
        self,
        connect: Callable[[], Connection],
        on_notice: NoticeCallback,
        loop: asyncio.AbstractEventLoop,
        get_pid: Callable[[], int],
    ) -> None:
        super().__init__(name="capset-listener", daemon=True)
        self._connect = connect
        self._on_notice = on_notice
        self._loop = loop
        self._get_own_pid = get_pid
        self.is_connected = threading.Event()
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                self._listen()
            except Exception as error:
                if not (isinstance(error, SQLAlchemyError | StoreError) or is_of_driver(error)):
                    raise
            self.is_connected.clear()
            self.ended.wait(RECONNECT_SECONDS)

    def _listen(self) -> None:
        with contextlib.closing(self._connect()) as connection:
            connection.exec_driver_sql(f"LISTEN {CHANNEL}")
            raw = cast("Any", connection.connection.driver_connection)  # psycopg's, which is not imported here
            self.is_connected.set()
            self._notify(None)  # earlier notifications may have been missed
            while not self.ended.is_set():
                for notification in raw.notifies(timeout=0.5):  # seconds, to check whether it has ended
                    if notification.pid != self._get_own_pid():
                        session = notification.payload
                        self._notify(ChangeNotice("events", session) if session else None)

    def _notify(self, notice: ChangeNotice | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and its followers are gone
            self._loop.call_soon_threadsafe(self._on_notice, notice)


_WORDS: Final = table("document_words", column("number", BigInteger), column("word", Text))
_LAST_CHARACTER: Final = chr(0x10FFFF)
"""A character that sorts after every letter and digit, by code point."""
_INSERT_WORDS: Final = insert(_WORDS).from_select(
    ["number", "word"],
    select(bindparam("number", type_=BigInteger), func.unnest(bindparam("words", type_=ARRAY(Text)))),
)

_CLIENT_HINT: Final = "install PostgreSQL's client programs, in the server's version or newer"
_VERSION: Final = re.compile(rb"\(PostgreSQL\) (\d+)")
_SECRET_OPTIONS: Final = {"password": "PGPASSWORD"}
"""Options that must not appear on a command line, which others can read, and libpq's environment variables for them."""

SCHEMES: Final = ("postgresql", "postgres")
DRIVER: Final = "psycopg"
"""The only supported driver. A URL may name it as in SQLAlchemy: ``postgresql+psycopg://``."""
BUSY_SECONDS: Final = 4.5
"""How long a write transaction waits for the write lock: longer than a frozen process can hold it."""
_HINT: Final = "write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE; libpq's options may follow a '?'"


def open_postgres(url: str) -> SqlStore:
    """Return the store for a ``postgresql://…`` or ``postgres://…`` URL, not yet opened.

    ``postgresql+psycopg://…`` is the same. libpq supplies the parts that the URL omits: a password from ``PGPASSWORD``
    or ``~/.pgpass``, a host from ``PGHOST``. Raises ``DefinitionError`` if the URL is invalid or names no database. No
    error repeats the URL, which may contain a password.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # whose texts may contain the URL
        raise DefinitionError("the store's URL cannot be read", hint=_HINT) from None
    scheme, _, driver = parsed.drivername.partition("+")
    if driver not in ("", DRIVER):
        raise DefinitionError(
            f"the store's URL names the driver {driver[:40]!r}; only {DRIVER} is supported", hint=_HINT
        )
    if scheme not in SCHEMES or not parsed.database:
        raise DefinitionError("the store's URL names no PostgreSQL database", hint=_HINT)
    return PostgresStore(parsed)


class PostgresStore(SqlStore):
    """A store in one PostgreSQL database. Errors contain its name, but not its host or user."""

    def __init__(self, url: URL, *, busy_seconds: float = BUSY_SECONDS, max_queued: int = MAX_QUEUED) -> None:
        self._url = url
        self._busy_seconds = busy_seconds
        super().__init__(
            str(url.database),
            leases=SessionLeases(self._connect),
            search=WordTable(),
            notifications=PostgresNotifications(self._connect),
            max_queued=max_queued,
            patience_seconds=PATIENCE_SECONDS * busy_seconds / BUSY_SECONDS,
        )

    def make_engines(self) -> tuple[Engine, Engine]:
        """Return the write engine and the read engine. Raises ``DefinitionError`` if the driver is not installed."""
        try:
            import psycopg  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ImportError:
            raise DefinitionError(
                "a store in PostgreSQL needs the extra 'postgres', which is not installed",
                hint=install_command("postgres"),
            ) from None
        writing = writing_engine(self._url, self.name, busy_seconds=self._busy_seconds)
        return writing, reading_engine(self._url, self.name)

    def back_up_to(self, file: Path) -> None:
        """Write a consistent copy, in the format of ``pg_restore``, to an existing empty file."""
        dump(self._url, self.name, file)

    def restore_from(self, file: Path, finish: Callable[[Connection], T]) -> T:
        """Restore a copy into the empty database in one transaction, and run ``finish`` in another."""
        writing, reading = self.make_engines()
        try:
            with reading.begin() as connection:
                if inspect(connection).get_table_names():
                    raise DefinitionError(
                        f"the database {self.name!r} already has tables",
                        hint="create a new one with createdb; after an interrupted restore, a database is incomplete",
                    )
            load(self._url, self.name, file)
            with writing.begin() as connection:
                return finish(connection)
        finally:
            writing.dispose()
            reading.dispose()

    def create_indexes_online(self, indexes: Sequence[IndexSpec]) -> None:
        """Create indexes while other connections write."""
        make_indexes(self._locking, indexes)

    @cached_property
    def _locking(self) -> Engine:
        return locking_engine(self._url, self.name)

    def _connect(self) -> Connection:
        return self._locking.connect()


class WordTable:
    """One row per distinct word of a document, after the token of its key. A foreign key deletes the rows."""

    def index_words(self, connection: Connection, number: int, key: ScopeKey, words: Sequence[str]) -> None:
        prefix = token(key)
        connection.execute(_INSERT_WORDS, {"number": number, "words": [prefix + word for word in words]})

    def candidates_query(self, key: ScopeKey, words: Sequence[str]) -> Select[int, int]:
        """Return a query for candidates: a range for each word."""
        prefix, word = token(key), _WORDS.c.word
        queries = [
            select(_WORDS.c.number).where(word >= prefix + text, word < prefix + text + _LAST_CHARACTER).distinct()
            for text in words
        ]
        matches = union_all(*queries).subquery()
        return select(matches.c.number, func.count().label("hits")).group_by(matches.c.number)


def dump(url: URL, name: str, file: Path) -> None:
    """Write a database to a file in ``pg_dump``'s custom format. Raises ``StoreError`` if that fails.

    The file contains no owners and no grants, so that it can be restored for any user.
    """
    problem = f"pg_dump could not read the database {name!r}"
    arguments = ["--format=custom", f"--file={file}"]
    _run_client(url, name, "pg_dump", arguments, purpose="a backup of", problem=problem)


def load(url: URL, name: str, file: Path) -> None:
    """Restore a file from ``dump`` into an empty database, in one transaction. Raises ``StoreError`` if that fails."""
    problem = f"pg_restore could not fill the database {name!r}"
    arguments = ["--single-transaction", "--exit-on-error", str(file)]
    _run_client(url, name, "pg_restore", arguments, purpose="restoring", problem=problem)


def _run_client(url: URL, name: str, client: str, arguments: Sequence[str], *, purpose: str, problem: str) -> None:
    """Run one of PostgreSQL's client programs on a database. Raises ``StoreError`` if it is missing or fails."""
    program = shutil.which(client)
    if program is None:
        missing = f"{purpose} a PostgreSQL database needs {client}, which is not on the PATH"
        raise StoreError(missing, hint=_CLIENT_HINT)
    _check_version(program, url, name)
    connection_string, environ = _connection_string(url)
    options = ["--no-owner", "--no-privileges", "--no-password", f"--dbname={connection_string}"]
    # The program is the result of shutil.which; its arguments are our own and libpq's options.
    completed = subprocess.run([program, *options, *arguments], env=environ, capture_output=True, check=False)  # noqa: S603
    if completed.returncode:
        lines = completed.stderr.decode(errors="replace").strip().splitlines()
        raise StoreError(problem, hint=lines[0][:300] if lines else None)


def _check_version(program: str, url: URL, name: str) -> None:
    """Raise ``StoreError`` if a client program is older than the server."""
    completed = subprocess.run([program, "--version"], capture_output=True, check=False)  # noqa: S603
    match = _VERSION.search(completed.stdout)
    version = int(match[1]) if match else 0
    engine = locking_engine(url, name)
    with closing(engine.connect()) as connection:
        server = connection.exec_driver_sql("SELECT current_setting('server_version_num')::int / 10000").scalar_one()
    if version < server:
        problem = f"{Path(program).name} has version {version or 'unknown'}; the server has {server}"
        raise StoreError(problem, hint=_CLIENT_HINT)


def _connection_string(url: URL) -> tuple[str, dict[str, str]]:
    """Return the connection string for libpq, and the environment with the secrets."""
    from psycopg.conninfo import make_conninfo

    dialect = url.set(drivername="postgresql+psycopg").get_dialect()()
    options = {key: str(value) for key, value in dialect.create_connect_args(url)[1].items()}
    secrets = {variable: options.pop(key) for key, variable in _SECRET_OPTIONS.items() if key in options}
    if "sslpassword" in options:
        raise StoreError(
            "pg_dump accepts sslpassword only on its command line, which others can read",
            hint="use a key without a password",
        )
    return make_conninfo("", **options), {**os.environ, **secrets}
