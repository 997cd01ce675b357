"""Queries of PostgreSQL that the server itself lets only read (spec 4, G30). Needs psycopg, the extra ``postgres``.

Each query has a connection of its own, so that what it does to its session reaches no other. It is run as a cursor,
``DECLARE … CURSOR FOR <query>``, by the extended protocol, in a READ ONLY transaction that is always rolled back. The
server's grammar takes only a SELECT, VALUES or TABLE there: no SET, COPY, DO, CALL, LISTEN or COMMIT, no statement that
writes inside a WITH, and no second statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.types.string import TextLoader

from capset import ToolError
from capset.builtin.database.config import DatabaseConfig
from capset.builtin.database.halting import Halt
from capset.builtin.database.roles import check_role
from capset.builtin.database.rows import QueryResult, Rows, too_large
from capset.builtin.database.watching import Halted, TooMuch, WatchedConnection

LOCK_SECONDS: Final = 2.0
"""How long a table that is locked is waited for."""
_SETTINGS: Final[LiteralString] = (
    "SELECT set_config('statement_timeout', %(all)s, true), set_config('lock_timeout', %(lock)s, true),"
    " set_config('idle_in_transaction_session_timeout', %(idle)s, true), set_config('TimeZone', 'UTC', true),"
    " set_config('DateStyle', 'ISO', true), set_config('IntervalStyle', 'iso_8601', true)"
)
"""What holds for the transaction; a query could change it again, which ``WatchedConnection`` makes up for."""
_MOMENTS: Final = ("date", "time", "timetz", "timestamp", "timestamptz")
_TEXTS: Final = (
    *("json", "jsonb", "interval", "int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *("int4multirange", "int8multirange", "nummultirange", "datemultirange", "tsmultirange", "tstzmultirange"),
)
_TOLD: Final = ("0A", "20", "21", "22", "25", "2F", "34", "3D", "3F", "42", "44", "54", "P0")
"""The classes of errors whose first line is about the query."""


def query_postgres(
    url: str, query: str, params: Sequence[object], config: DatabaseConfig, halt: Halt, name: str
) -> QueryResult:
    """Run one query in this thread, on a connection of its own. Raises ``ToolError``."""
    connection = _connected(url, halt, name)
    # A raw cursor leaves the text as it is, with $1, $2 for its parameters. One of the server's own is always asked by
    # the extended protocol, and always by DECLARE.
    cursor = psycopg.RawServerCursor(connection, "capset")
    try:
        _prepare(connection, halt)
        check_role(connection, name)
        cursor.execute(cast("LiteralString", query), list(params))
        return _fetched(connection, cursor, config)
    except Halted:
        with suppress(psycopg.Error):
            connection.cancel_safe(timeout=1)  # the server would go on otherwise
        raise halt.error() from None
    except TooMuch:
        raise too_large(config) from None
    except psycopg.Error as error:
        raise _told(error, halt, name) from None
    except UnicodeError:
        raise ToolError("a parameter, or the query, has a lone surrogate, which is no text") from None
    finally:
        connection.close()  # the server rolls back
        cursor.close()


def _connected(url: str, halt: Halt, name: str) -> WatchedConnection:
    try:
        connection = WatchedConnection.connect(
            url,
            connect_timeout=max(2, min(10, round(halt.left))),
            client_encoding="utf8",
            application_name="capset db_query",
        )
    except psycopg.Error:  # whose text names the host and the user
        raise _unavailable(name) from None
    connection.halt = halt
    for kind in _MOMENTS:
        connection.adapters.register_loader(kind, _Moment)
    for kind in _TEXTS:
        connection.adapters.register_loader(kind, TextLoader)
    return connection


def _prepare(connection: WatchedConnection, halt: Halt) -> None:
    connection.read_only = True
    whole = max(1, round(halt.left * 1000))
    lock = min(whole, round(LOCK_SECONDS * 1000))
    connection.execute(_SETTINGS, {"all": f"{whole}", "lock": f"{lock}", "idle": f"{whole + 5000}"})


def _fetched(
    connection: WatchedConnection, cursor: psycopg.RawServerCursor[tuple[Any, ...]], config: DatabaseConfig
) -> QueryResult:
    rows = Rows(config)
    columns = [column.name for column in cursor.description or ()]
    connection.allowance = 2 * config.max_bytes + (1 << 20)
    try:
        while batch := cursor.fetchmany(rows.next_batch()):
            if not all(map(rows.add, batch)):
                break
    except TooMuch:
        if not rows:
            raise
        rows.truncated = True
    return rows.result(columns)


class _Moment(Loader):
    """Dates and times as ISO 8601, with those that Python has not, such as ``infinity``, as the server writes them."""

    def load(self, data: Buffer) -> str:
        """Return the text of a value."""
        day, gap, time = bytes(data).decode().partition(" ")
        joined = f"{day}T{time}" if time[:1].isdigit() else f"{day}{gap}{time}"
        return f"{joined}:00" if re.search(r":\d\d(\.\d+)?[+-]\d\d$", joined) else joined


def _told(error: psycopg.Error, halt: Halt, name: str) -> ToolError:
    """Return what the model is told: of its query all, of the server nothing."""
    state = error.sqlstate
    message = (error.diag.message_primary or "").strip()
    match state:
        case None if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return _unavailable(name)
        case None:  # of the driver: parameters that do not fit, or a value that it cannot read
            return ToolError(f"PostgreSQL: {str(error).splitlines()[0]:.300}")
        case "57014":
            return halt.error()
        case "55P03":
            return ToolError(f"a table of the database {name!r} is locked; try again", code="database_busy", status=503)
        case "42501" | "25006":
            return ToolError(f"PostgreSQL: {message}; db_query only reads, by one SELECT", status=403)
        case _ if state[:2] in _TOLD or state == "08P01":  # as many parameters as the query has placeholders
            hint = error.diag.message_hint
            return ToolError(f"PostgreSQL: {message}{f'; {hint}' if hint else ''}")
        case _:
            return _unavailable(name, state)


def _unavailable(name: str, state: str | None = None) -> ToolError:
    told = f" (SQLSTATE {state})" if state else ""
    return ToolError(f"the database {name!r} did not answer{told}", code="database_unavailable", status=503)
