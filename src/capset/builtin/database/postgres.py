"""A PostgreSQL connection that is abandoned when its query has to end, or when too much comes in (spec 4, G30)."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from typing import Any, Final, LiteralString, TypeVar, cast

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import Buffer, Loader
from psycopg.types.string import TextLoader
from psycopg.waiting import Ready

from capset import ToolError
from capset.builtin.database.cancellation import STEP, Halt
from capset.builtin.database.config import DatabaseConfig
from capset.builtin.database.rows import ONLY_READS, QueryResult, Rows, too_large
from capset.ext import TransientError

if sys.platform == "win32":

    def _waiting(_file: int) -> int:
        return 0
else:
    import fcntl
    import termios

    def _waiting(file: int) -> int:
        """Return the number of bytes received but not read yet."""
        return struct.unpack("i", fcntl.ioctl(file, termios.FIONREAD, b"\0\0\0\0"))[0]


T = TypeVar("T")


class Halted(Exception):
    """The query has to end."""


class TooMuch(Exception):
    """More data came in than the caps allow for."""


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):  # rows of any types
    """A connection that checks a ``Halt``, and the amount of incoming data, at every wait.

    A query can change the server's own timeout (``set_config``), and a single row can have gigabytes: libpq reads it
    completely before it passes it on. The count never exceeds the received data, and may be a third of it; on Windows
    nothing is counted.
    """

    halt: Halt | None = None
    allowance: int = sys.maxsize
    """How many more bytes may come in."""

    def wait(self, gen: PQGen[T], interval: float = STEP, timeout: float | None = None) -> T:
        """Run the driver's generator to its end or that of the query. Raises ``Halted`` and ``TooMuch``."""
        if self.halt is None:
            return super().wait(gen, interval) if timeout is None else super().wait(gen, interval, timeout)
        file = self.pgconn.socket
        try:
            wanted = next(gen)
            with DefaultSelector() as selector:
                selector.register(file, wanted)
                while True:
                    if self.halt.is_over:
                        raise Halted
                    ready = selector.select(STEP)
                    if not ready:
                        gen.send(Ready.NONE)
                        continue
                    events = ready[0][1]
                    before = _waiting(file) if events & EVENT_READ else 0
                    wanted = gen.send(Ready(events))
                    self.allowance -= max(before - _waiting(file), 0) if before else 0
                    if self.allowance < 0:
                        raise TooMuch
                    selector.modify(file, wanted)
        except StopIteration as end:
            return end.value


POWERS: Final = [
    *("pg_read_server_files", "pg_write_server_files", "pg_execute_server_program"),
    *("pg_signal_backend", "pg_signal_autovacuum_worker", "pg_checkpoint", "pg_create_subscription"),
]
"""PostgreSQL's predefined roles whose members can do more than read."""
FUNCTIONS: Final = [
    # files of the server
    *("pg_read_file", "pg_read_binary_file", "pg_ls_dir", "pg_stat_file", "lo_import", "lo_export"),
    *("pg_file_write", "pg_file_rename", "pg_file_unlink", "pg_file_sync", "pg_logdir_ls"),
    # the server itself
    *("pg_reload_conf", "pg_rotate_logfile", "pg_switch_wal", "pg_promote", "pg_backup_start", "pg_backup_stop"),
    *("pg_create_restore_point", "pg_wal_replay_pause", "pg_stat_reset", "pg_stat_reset_shared"),
    # other servers, and this one again, outside of the transaction
    *("dblink", "dblink_connect", "dblink_connect_u", "dblink_exec", "dblink_open", "dblink_send_query"),
    *("http", "http_get", "http_post", "http_put", "http_patch", "http_delete", "http_head"),
]
"""Functions that a plain role may call only if granted, or if an extension allows everybody."""

_FOUND: Final[LiteralString] = """
WITH reachable AS (
    SELECT oid, rolname, rolsuper OR rolreplication AS powerful
    FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
)
SELECT CASE WHEN rolsuper THEN 'is a superuser' ELSE 'may replicate' END
FROM pg_catalog.pg_roles WHERE rolname = session_user AND (rolsuper OR rolreplication)
UNION ALL
SELECT 'can become ' || rolname FROM reachable WHERE powerful OR rolname::text = ANY(%s)
UNION ALL
SELECT 'may call ' || function.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc AS function
WHERE function.proname::text = ANY(%s) AND EXISTS (
    SELECT FROM reachable WHERE pg_catalog.has_function_privilege(reachable.oid, function.oid, 'EXECUTE')
)
LIMIT 1
"""


def check_role(connection: psycopg.Connection[Any], name: str) -> None:
    """Raise ``ToolError`` unless the session's user can do nothing but read through a SELECT."""
    found = connection.execute(_FOUND, (POWERS, FUNCTIONS)).fetchone()
    if found is not None:
        raise ToolError(
            f"the database {name!r} is not asked: the role that its connection logs in with {found[0]}, so that a "
            "query could do more than read; its operator has to give it a role of its own that may only SELECT",
            code="role_too_powerful",
            status=403,
            hint="CREATE ROLE reader LOGIN; GRANT SELECT ON … TO reader; REVOKE EXECUTE ON … FROM PUBLIC",
        )


LOCK_SECONDS: Final = 2.0
"""How long to wait for a locked table."""
_SETTINGS: Final[LiteralString] = (
    "SELECT set_config('statement_timeout', %(all)s, true), set_config('lock_timeout', %(lock)s, true),"
    " set_config('idle_in_transaction_session_timeout', %(idle)s, true), set_config('TimeZone', 'UTC', true),"
    " set_config('DateStyle', 'ISO', true), set_config('IntervalStyle', 'iso_8601', true)"
)
"""Settings of the transaction; a query could change them again, which ``WatchedConnection`` compensates for."""
_MOMENTS: Final = ("date", "time", "timetz", "timestamp", "timestamptz")
_TEXTS: Final = (
    *("json", "jsonb", "interval", "int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *("int4multirange", "int8multirange", "nummultirange", "datemultirange", "tsmultirange", "tstzmultirange"),
)
_TOLD: Final = ("0A", "20", "21", "22", "25", "2F", "34", "3D", "3F", "42", "44", "54", "P0")
"""The classes of errors whose first line is about the query."""

_NEAR: Final = re.compile(r'at or near "([A-Za-z]+)"')
_COMMANDS: Final = frozenset(
    (
        *("alter", "begin", "call", "cluster", "comment", "commit", "copy", "create", "delete", "do", "drop", "grant"),
        *("insert", "listen", "lock", "merge", "notify", "refresh", "reindex", "revoke", "set", "truncate", "update"),
        *("vacuum",),
    )
)
"""Commands that do more than read. In the place of a SELECT they are errors of syntax, as misspelled words are."""


def query_postgres(
    url: str, query: str, params: Sequence[object], config: DatabaseConfig, halt: Halt, name: str
) -> QueryResult:
    """Run one query in this thread, on a connection of its own. Raises ``ToolError``."""
    connection = _connected(url, halt, name)
    # A raw cursor leaves the text as it is, with $1, $2 for its parameters. A server-side one always uses the extended
    # protocol and DECLARE.
    cursor = psycopg.RawServerCursor(connection, "capset")
    try:
        _prepare(connection, halt)
        check_role(connection, name)
        cursor.execute(cast("LiteralString", query), list(params))
        return _fetched(connection, cursor, config)
    except Halted:
        with suppress(psycopg.Error):
            connection.cancel_safe(timeout=1)  # otherwise the server would continue
        raise halt.error() from None
    except TooMuch:
        raise too_large(config) from None
    except psycopg.Error as error:
        raise _error_for_model(error, halt, name) from None
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
    except psycopg.Error:  # its text names the host and the user
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
    """Dates and times as ISO 8601; those unknown to Python, such as ``infinity``, as the server writes them."""

    def load(self, data: Buffer) -> str:
        """Return the text of a value."""
        day, gap, time = bytes(data).decode().partition(" ")
        joined = f"{day}T{time}" if time[:1].isdigit() else f"{day}{gap}{time}"
        return f"{joined}:00" if re.search(r":\d\d(\.\d+)?[+-]\d\d$", joined) else joined


def _error_for_model(error: psycopg.Error, halt: Halt, name: str) -> ToolError:
    """Return the error for the model: all details of its query, none of the server."""
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
            return TransientError(f"a table of the database {name!r} is locked; try again", code="database_busy")
        case "42501" | "25006":
            return ToolError(f"PostgreSQL: {message}; {ONLY_READS}", status=403)
        case "42601" if (at := _NEAR.search(message)) and at[1].lower() in _COMMANDS:
            return ToolError(f"PostgreSQL: {message}; {ONLY_READS}", status=403)
        case "0A000" if "data-modifying" in message:  # in WITH
            return ToolError(f"PostgreSQL: {message}; {ONLY_READS}", status=403)
        case _ if state[:2] in _TOLD or state == "08P01":  # wrong number of parameters
            hint = error.diag.message_hint
            return ToolError(f"PostgreSQL: {message}{f'; {hint}' if hint else ''}")
        case _:
            return _unavailable(name, state)


def _unavailable(name: str, state: str | None = None) -> ToolError:
    told = f" (SQLSTATE {state})" if state else ""
    return ToolError(f"the database {name!r} did not answer{told}", code="database_unavailable", status=503)
