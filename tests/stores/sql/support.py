"""What the tests of SQL stores share."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

from capset.stores.sql.sqlite import SqliteStore


@asynccontextmanager
async def opened(path: Path, *, busy_seconds: float = 5.0) -> AsyncGenerator[SqliteStore]:
    """Open the store in a file, and close it again."""
    store = SqliteStore(str(path), busy_seconds=busy_seconds)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def raw(path: Path) -> Generator[sqlite3.Connection]:
    """Connect to a file as anybody could, each statement a transaction of its own."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@contextmanager
def process(script: str, *arguments: object) -> Generator[subprocess.Popen[str]]:
    """Run a Python script in a process of its own, which is killed at the end if it still runs."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def line_of(child: subprocess.Popen[str]) -> str:
    """Wait for the next line that a process prints."""
    assert child.stdout is not None
    return child.stdout.readline().strip()
