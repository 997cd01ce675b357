"""A SQLite file with something in it, and sessions that ask it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from capset import Message
from capset_testing import Desk, session_for
from capset_tools.database import DatabaseConfig, DatabaseConnection, database


class Known:
    """Secrets of the test's own."""

    def __init__(self, **secrets: str) -> None:
        self._secrets = secrets

    async def get(self, name: str) -> str | None:
        return self._secrets.get(name)


def made(file: Path, script: str) -> str:
    """Make a SQLite file by a script, and return its URL."""
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)
    return f"sqlite:///{file}"


@asynccontextmanager
async def asking(url: str, **caps: Any) -> AsyncGenerator[Desk]:
    """Open a session that has this one database."""
    config = DatabaseConfig(connections={"main": DatabaseConnection(url=url)}, **caps)
    async with session_for(database, config=config, permissions=["database:read"]) as desk:
        yield desk


async def ask(desk: Desk, query: str, *params: object, **more: Any) -> dict[str, Any]:
    """Return the result of a query that must succeed."""
    result = await desk.session.try_message(_message(desk, query, params, more))
    assert result.data is not None, result.error
    return result.data


async def refused(desk: Desk, query: str, *params: object, **more: Any) -> Any:
    """Return the error of a query that must not succeed."""
    result = await desk.session.try_message(_message(desk, query, params, more))
    assert result.error is not None, result.data
    return result.error


def _message(desk: Desk, query: str, params: tuple[object, ...], more: Mapping[str, Any]) -> Message:
    arguments: dict[str, Any] = {"params": list(params)} if params else {}
    return desk.session.message("db_query", {"query": query, **arguments, **more})
