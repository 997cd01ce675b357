"""Queries of a SQLite file that SQLite itself lets only read (spec 4, G30)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from capset import ToolError
from capset.builtin.database.cancellation import Halt
from capset.builtin.database.config import DatabaseConfig
from capset.builtin.database.functions import PURE, add_linear
from capset.builtin.database.rows import QueryResult, Rows, too_large

BUSY_SECONDS: Final = 2.0
"""How long a database that is being written is waited for; SQLite cannot be stopped in it."""
_OPCODES: Final = 5_000
"""After how many steps of its machine SQLite asks whether to go on: a fraction of a millisecond."""
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 16,
    sqlite3.SQLITE_LIMIT_COLUMN: 256,  # each can hold a value of the largest size
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,  # for one LIKE cannot be stopped either
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_ASKED: Final = ("data_version", "page_size")
"""What full-text tables ask the connection: whether others have written, and how large a page is."""
_TOLD: Final = {"SQLITE_ERROR", "SQLITE_AUTH", "SQLITE_READONLY", "SQLITE_MISMATCH", "SQLITE_RANGE"}
"""The errors whose text is about the query, not about the file."""


def query_sqlite(
    url: str, query: str, params: Sequence[object], config: DatabaseConfig, halt: Halt, name: str
) -> QueryResult:
    """Run one query in this thread, on a connection of its own. Raises ``ToolError``."""
    path = Path(url.removeprefix("sqlite:///")).absolute()
    try:
        with closing(_opened(path, config, halt)) as connection:
            return _run(connection, query, params, config)
    except sqlite3.Error as error:
        raise _told(error, config, halt, name) from None
    except (OverflowError, UnicodeError) as error:
        raise ToolError(f"a parameter, or the query, is nothing that SQLite can hold: {error}") from None


def _opened(path: Path, config: DatabaseConfig, halt: Halt) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=min(BUSY_SECONDS, halt.left)
    )
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.text_factory = _text
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, config.max_bytes)
        add_linear(connection, config.max_bytes)
        connection.set_progress_handler(lambda: halt.is_over, _OPCODES)
        connection.set_authorizer(_authorise)  # last, so that no statement of the model's comes before it
    except BaseException:
        connection.close()
        raise
    return connection


def _text(data: bytes) -> str:
    """Return what a column holds as text, which SQLite lets be no UTF-8."""
    return data.decode("utf-8", "replace")


def _authorise(action: int, first: str | None, second: str | None, _database: str | None, _within: str | None) -> int:
    """Tell SQLite whether a statement that it compiles may do this: read, call pure functions, and nothing else."""
    match action:
        case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_READ | sqlite3.SQLITE_RECURSIVE:
            allowed = True
        case sqlite3.SQLITE_FUNCTION:
            allowed = second is not None and second.lower() in PURE
        case sqlite3.SQLITE_PRAGMA:
            allowed = first in _ASKED and second is None
        case sqlite3.SQLITE_UPDATE:
            # So a virtual table declares its columns to the connection. No statement gets further by it: SQLite itself
            # takes nobody's update of its catalogue, and the connection is read-only.
            allowed = first == "sqlite_master"
        case _:
            allowed = False
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _run(connection: sqlite3.Connection, query: str, params: Sequence[object], config: DatabaseConfig) -> QueryResult:
    with closing(connection.execute(query, tuple(params))) as cursor:
        if cursor.description is None:
            raise ToolError("the query gives no rows: it is empty; write one SELECT")
        rows = Rows(config)
        for row in cursor:
            if not rows.add(row):
                break
        return rows.result([column[0] for column in cursor.description])


def _told(error: sqlite3.Error, config: DatabaseConfig, halt: Halt, name: str) -> ToolError:
    """Return what the model is told: of its query all, of the host's file nothing."""
    kind = getattr(error, "sqlite_errorname", None) or ""
    if kind == "SQLITE_INTERRUPT":
        return halt.error()
    if kind == "SQLITE_TOOBIG":
        return too_large(config)
    if kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return ToolError(f"the database {name!r} is being written; try again", code="database_busy", status=503)
    if not kind:  # of the driver: several statements, or other parameters than the query has
        return ToolError(f"SQLite: {error}")
    if kind in _TOLD:
        refused = "; db_query only reads, by one SELECT" if "authoriz" in str(error) else ""
        return ToolError(f"SQLite: {error}{refused}", status=403 if refused else None)
    return ToolError(f"the database {name!r} cannot be read ({kind})", code="database_unavailable", status=503)
