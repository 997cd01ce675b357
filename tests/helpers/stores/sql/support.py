"""What the tests of SQL stores share."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, LiteralString

from alembic import command
from alembic.config import Config

from capset.stores.sql import open_postgres, open_sqlite
from capset.stores.sql.sqlite import SqliteStore, make_engine
from capset.stores.sql.store import SqlStore
from tests.databases import connected

STORE_AT = """
from capset.stores.sql import open_postgres, open_sqlite

def store_at(url):
    return (open_sqlite if url.startswith("sqlite") else open_postgres)(url)
"""
"""For scripts."""


def store_at(url: str) -> SqlStore:
    """Return the store at a URL; also before what is installed knows its scheme."""
    return (open_sqlite if url.startswith("sqlite") else open_postgres)(url)


@asynccontextmanager
async def opened_at(url: str) -> AsyncGenerator[SqlStore]:
    """Open the store at a URL, and close it again."""
    store = store_at(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def opened(path: Path, *, busy_seconds: float = 5.0) -> AsyncGenerator[SqliteStore]:
    """Open the store in a file, and close it again."""
    store = SqliteStore(str(path), busy_seconds=busy_seconds)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def make(path: Path, revision: str, *statements: str) -> None:
    """Make a database as the version of this revision left it, by the migrations."""
    engine = make_engine(path, "IMMEDIATE")
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", "capset.stores.sql:migrations")
        command.upgrade(config, revision)
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


@contextmanager
def raw(path: Path) -> Generator[sqlite3.Connection]:
    """Connect to a file as anybody could, each statement a transaction of its own."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def path_of(url: str) -> Path | None:
    """Return the path of a database in a file, ``None`` for one on a server."""
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else None


def run_at(url: str, statement: LiteralString) -> list[tuple[Any, ...]]:
    """Run a statement in a database as anybody could, and return the rows that it gives."""
    if (path := path_of(url)) is not None:
        with raw(path) as file:
            return file.execute(statement).fetchall()
    with connected(url) as connection:
        done = connection.execute(statement)
        return done.fetchall() if done.description else []


@contextmanager
def process(script: str, *arguments: object) -> Generator[subprocess.Popen[str]]:
    """Run a Python script in a process of its own, which is killed at the end if it still runs."""
    command = [sys.executable, "-c", STORE_AT + script, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def let_go(*children: subprocess.Popen[str], within: float = 90) -> None:
    """Wait until processes are ready, have them go on all at once, and wait until they have ended well."""
    for child in children:
        assert line_of(child) == "ready"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        assert child.wait(within) == 0


def line_of(child: subprocess.Popen[str]) -> str:
    """Wait for the next line that a process prints."""
    assert child.stdout is not None
    return child.stdout.readline().strip()
