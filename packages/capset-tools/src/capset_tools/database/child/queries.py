"""One PostgreSQL query, run as a role that can only read (spec 4, G30)."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict
from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.types.string import TextLoader

from capset_tools.database.child.failures import (
    ONLY_READS,
    OWN_TABLES,
    QueryFailure,
    not_allowed,
    own_store,
    timed_out,
    too_large,
    unavailable,
)
from capset_tools.database.child.functions import ORDINARY, NamesInQuery, names_in
from capset_tools.database.child.main import QueryOrder
from capset_tools.database.child.rows import Rows, RowTooLarge

Connection = psycopg.Connection[tuple[Any, ...]]  # rows of any types

POWERS: Final = [
    *("pg_read_server_files", "pg_write_server_files", "pg_execute_server_program"),
    *("pg_signal_backend", "pg_signal_autovacuum_worker", "pg_checkpoint", "pg_create_subscription"),
]
"""PostgreSQL's predefined roles whose members can do more than read."""
_POWER: Final[LiteralString] = """
WITH reachable AS (
    SELECT oid, rolname, rolsuper OR rolreplication AS powerful
    FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
)
SELECT CASE WHEN rolsuper THEN 'is a superuser' ELSE 'may replicate' END
FROM pg_catalog.pg_roles WHERE rolname = session_user AND (rolsuper OR rolreplication)
UNION ALL
SELECT 'can become ' || rolname FROM reachable WHERE powerful OR rolname::text = ANY(%s)
LIMIT 1
"""
_IS_OWN_STORE: Final[LiteralString] = """
SELECT 1 FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p') AND relname::text = ANY(%s)
GROUP BY relnamespace HAVING pg_catalog.count(*) = %s
"""
# A name has at most 63 bytes: the cast truncates longer ones as the server does in a query. A member after a dot calls
# a function of one argument, of any type: `(5).f` is `f(5)`.
_FUNCTIONS: Final[LiteralString] = """
SELECT DISTINCT proname::text FROM pg_catalog.pg_proc
WHERE proname = ANY(%s::pg_catalog.name[]) OR proname = ANY(%s::pg_catalog.name[]) AND pronargs > 0
AND pronargs - pronargdefaults <= 1
LIMIT 10
"""

_LOCK_SECONDS: Final = 2.0
"""How long to wait for a locked table."""
_SETTINGS: Final[LiteralString] = (
    "SELECT set_config('statement_timeout', %(all)s, true), set_config('lock_timeout', %(lock)s, true),"
    " set_config('idle_in_transaction_session_timeout', %(idle)s, true), set_config('TimeZone', 'UTC', true),"
    " set_config('DateStyle', 'ISO', true), set_config('IntervalStyle', 'iso_8601', true),"
    # Otherwise string literals would end at other places than `functions` assumes.
    " set_config('standard_conforming_strings', 'on', true)"
)
"""Settings of the transaction. None of the ordinary functions can change them."""
_MOMENTS: Final = ("date", "time", "timetz", "timestamp", "timestamptz")
_TEXTS: Final = (
    *("json", "jsonb", "interval", "int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *("int4multirange", "int8multirange", "nummultirange", "datemultirange", "tsmultirange", "tstzmultirange"),
)
_TOLD: Final = ("0A", "20", "21", "22", "25", "2F", "34", "3D", "3F", "42", "44", "54", "P0")
"""SQLSTATE classes of errors whose first line is about the query."""

_NEAR: Final = re.compile(r'at or near "([A-Za-z]+)"')
_COMMANDS: Final = frozenset(
    (
        *("alter", "begin", "call", "cluster", "comment", "commit", "copy", "create", "delete", "do", "drop", "grant"),
        *("insert", "listen", "lock", "merge", "notify", "refresh", "reindex", "revoke", "set", "truncate", "update"),
        *("vacuum",),
    )
)
"""Commands that do more than read. In place of a SELECT they are syntax errors, like misspelled words."""


class _NoMemory(Exception):
    """The process has reached its memory limit."""


def answer_of(order: QueryOrder) -> tuple[dict[str, Any], bool]:
    """Return a query's result or failure as JSON, and whether this process has no memory left for another query."""
    is_spent = False
    try:
        try:
            return _run(order)
        except (MemoryError, _NoMemory):
            is_spent = True
            raise too_large(order["max_bytes"]) from None
        except RowTooLarge:
            raise too_large(order["max_bytes"]) from None
        except UnicodeError:
            raise QueryFailure("the query or a parameter has a lone surrogate, which is not valid text") from None
    except QueryFailure as failure:
        return {"failure": asdict(failure)}, is_spent


def _run(order: QueryOrder) -> tuple[dict[str, Any], bool]:
    names = names_in(order["query"])
    connection = _connected(order["url"], order["seconds"], order["name"])
    # A raw cursor leaves the text unchanged, with $1, $2 for the parameters. A server-side cursor always uses the
    # extended protocol and DECLARE.
    cursor = psycopg.RawServerCursor(connection, "capset")
    try:
        _prepare(connection, order["seconds"])
        _check_database(connection, order["name"])
        _check_names(connection, names, order["functions"])
        cursor.execute(cast("LiteralString", order["query"]), order["params"])
        columns = [column.name for column in cursor.description or ()]
        rows = Rows(order["max_rows"], order["max_bytes"])
        is_spent = _fetch(cursor, rows)
        return {"columns": columns, "rows": rows.values, "truncated": rows.truncated}, is_spent
    except psycopg.Error as error:
        raise _failure_of(error, order) from None
    finally:
        connection.close()  # the server rolls back
        cursor.close()


def _connected(url: str, seconds: float, name: str) -> Connection:
    try:
        connection = psycopg.connect(
            url,
            connect_timeout=max(2, min(10, round(seconds))),
            client_encoding="utf8",
            application_name="capset db_query",
        )
    except psycopg.Error:  # its text names the host and the user
        raise unavailable(name) from None
    for kind in _MOMENTS:
        connection.adapters.register_loader(kind, _Moment)
    for kind in _TEXTS:
        connection.adapters.register_loader(kind, TextLoader)
    return connection


def _prepare(connection: Connection, seconds: float) -> None:
    connection.read_only = True
    milliseconds = max(1, round(seconds * 1000))
    lock = min(milliseconds, round(_LOCK_SECONDS * 1000))
    connection.execute(_SETTINGS, {"all": f"{milliseconds}", "lock": f"{lock}", "idle": f"{milliseconds + 5000}"})


def _check_database(connection: Connection, name: str) -> None:
    """Raise ``QueryFailure`` if the session's user could do more than read, or the database is a capset store."""
    power = connection.execute(_POWER, (POWERS,)).fetchone()
    if power is not None:
        raise QueryFailure(
            f"the database {name!r} cannot be queried: the role that its connection logs in with {power[0]}, so a "
            "query could do more than read; its operator has to give it a role of its own that may only SELECT",
            "role_too_powerful",
            403,
            "CREATE ROLE reader LOGIN; GRANT SELECT ON … TO reader",
        )
    if connection.execute(_IS_OWN_STORE, (list(OWN_TABLES), len(OWN_TABLES))).fetchone() is not None:
        raise own_store(name)


def _check_names(connection: Connection, names: NamesInQuery, functions: Collection[str]) -> None:
    """Raise ``QueryFailure`` if a query may call a function that is neither ordinary nor one of ``functions``."""
    allowed = ORDINARY.union(functions)
    called, members = sorted(names.called - allowed), sorted(names.members - allowed)
    if called or members:
        rows = connection.execute(_FUNCTIONS, (called, members)).fetchall()
        if rows:
            raise not_allowed([function for (function,) in rows])


def _fetch(cursor: psycopg.RawServerCursor[tuple[Any, ...]], rows: Rows) -> bool:
    """Fetch rows up to their end or a cap. Return whether this process ran out of memory.

    Raises ``_NoMemory`` if not even one row fitted.
    """
    try:
        while batch := cursor.fetchmany(rows.next_batch()):
            if not all(map(rows.add, batch)):
                break
    except (MemoryError, psycopg.Error) as error:
        if isinstance(error, psycopg.Error) and not _is_no_memory(error):
            raise
        if not rows:
            raise _NoMemory from None
        rows.truncated = True
        return True
    return False


def _is_no_memory(error: psycopg.Error) -> bool:
    """Return whether libpq could not allocate memory. Its message is in English, since ``LC_ALL`` is C."""
    return error.sqlstate is None and "memory" in str(error)


class _Moment(Loader):
    """Loads dates and times as ISO 8601. Values unknown to Python, such as ``infinity``, are not changed."""

    def load(self, data: Buffer) -> str:
        day, gap, time = bytes(data).decode().partition(" ")
        joined = f"{day}T{time}" if time[:1].isdigit() else f"{day}{gap}{time}"
        return f"{joined}:00" if re.search(r":\d\d(\.\d+)?[+-]\d\d$", joined) else joined


def _failure_of(error: psycopg.Error, order: QueryOrder) -> QueryFailure:
    """Return the failure for the model, with all details of its query and none of the server."""
    state, name = error.sqlstate, order["name"]
    message = (error.diag.message_primary or "").strip()
    match state:
        case None if _is_no_memory(error):
            return too_large(order["max_bytes"])
        case None if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return unavailable(name)
        case None:  # from the driver: mismatched parameters, or a value that it cannot read
            return QueryFailure(f"PostgreSQL: {str(error).splitlines()[0]:.300}")
        case "57014":
            return timed_out(order["limit"])
        case "55P03":
            return QueryFailure(
                f"a table of the database {name!r} is locked; try again", "database_busy", 503, is_transient=True
            )
        case "42501" | "25006":
            return QueryFailure(f"PostgreSQL: {message}; {ONLY_READS}", status=403)
        case "42601" if (at := _NEAR.search(message)) and at[1].lower() in _COMMANDS:
            return QueryFailure(f"PostgreSQL: {message}; {ONLY_READS}", status=403)
        case "0A000" if "data-modifying" in message:  # in WITH
            return QueryFailure(f"PostgreSQL: {message}; {ONLY_READS}", status=403)
        case _ if state[:2] in _TOLD or state == "08P01":  # wrong number of parameters
            hint = error.diag.message_hint
            return QueryFailure(f"PostgreSQL: {message}{f'; {hint}' if hint else ''}")
        case _:
            return unavailable(name, state)
