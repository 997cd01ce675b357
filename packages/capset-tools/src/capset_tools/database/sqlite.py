"""SQLite queries; SQLite itself enforces read-only access (spec 4, G30)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from capset import ToolError
from capset.ext import TransientError
from capset_tools.database.cancellation import Halt
from capset_tools.database.child.failures import ONLY_READS, OWN_TABLES, own_store, timed_out, too_large
from capset_tools.database.child.rows import Rows, RowTooLarge
from capset_tools.database.config import DatabaseConfig
from capset_tools.database.rows import QueryResult, error_of

BUSY_SECONDS: Final = 2.0
"""How long to wait for a database that is being written. SQLite cannot be interrupted while it waits."""
_OWN: Final = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN (?, ?, ?, ?)"
_OPCODES: Final = 5_000
"""Number of virtual machine steps between two interruption checks: a fraction of a millisecond."""
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 16,
    sqlite3.SQLITE_LIMIT_COLUMN: 256,  # each can hold a value of the maximum size
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,  # a single LIKE cannot be interrupted either
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_ASKED: Final = ("data_version", "page_size")
"""Pragmas that full-text tables read: whether other connections have written, and the page size."""
_FORBIDDEN: Final = ("not authorized", "authorization denied", "cannot VACUUM")
"""How SQLite's messages about refused statements begin. Their error names differ: that of CREATE is
``SQLITE_SCHEMA``."""
_TOLD: Final = {"SQLITE_ERROR", "SQLITE_AUTH", "SQLITE_READONLY", "SQLITE_MISMATCH", "SQLITE_RANGE"}
"""Errors whose message is about the query, not about the file."""

# Without printf and format: a single call can take two billion steps, and cannot be interrupted.
_SCALAR: Final = (
    "abs char coalesce concat concat_ws glob hex ifnull if iif instr length like likelihood likely lower ltrim max min "
    "nullif octet_length quote random replace round rtrim sign soundex subtype substr substring trim typeof unhex "
    "unicode unlikely upper unistr"
)
_AGGREGATE: Final = (
    "avg count group_concat median percentile percentile_cont percentile_disc string_agg sum total "
    "cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number"
)
_TIME: Final = "current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch"
_MATHEMATICAL: Final = (
    "acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow power "
    "radians sin sinh sqrt tan tanh trunc"
)
# Without json_patch, whose time is quadratic in its arguments.
_JSON: Final = (
    "-> ->> json json_array json_array_length json_error_position json_extract json_group_array json_group_object "
    "json_insert json_object json_pretty json_quote json_remove json_replace json_set json_type json_valid"
)
_FULL_TEXT: Final = "bm25 highlight match matchinfo offsets snippet"
PURE: Final = frozenset(f"{_SCALAR} {_AGGREGATE} {_TIME} {_MATHEMATICAL} {_JSON} {_FULL_TEXT}".split())
"""All others are refused: ``load_extension``, ``fts3_tokenizer``, ``zeroblob`` and ``randomblob``, and those of later
SQLite versions until they have been reviewed."""

Value = str | int | float | bytes | None


def query_sqlite(
    url: str, query: str, params: Sequence[object], config: DatabaseConfig, halt: Halt, name: str
) -> QueryResult:
    """Run one query in this thread, on its own connection. Raises ``ToolError`` if it fails."""
    path = Path(url.removeprefix("sqlite:///")).absolute()
    try:
        with closing(open_read_only(path, config, halt, name)) as connection:
            return _run(connection, query, params, config)
    except sqlite3.Error as error:
        raise _error_for_model(error, config, halt, name) from None
    except (MemoryError, RowTooLarge):  # default values in the schema can exceed the limit, too
        raise error_of(too_large(config.max_bytes)) from None
    except (OverflowError, UnicodeError) as error:
        raise ToolError(f"SQLite cannot hold the query or a parameter: {error}") from None


def open_read_only(path: Path, config: DatabaseConfig, halt: Halt, name: str) -> sqlite3.Connection:
    """Open a file for one query, and set the limits of the query. The schema cannot change from then on.

    Raises ``ToolError`` for a capset store.
    """
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=min(BUSY_SECONDS, halt.left)
    )
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.text_factory = _text
        connection.set_progress_handler(lambda: halt.is_over, _OPCODES)
        # The limits are meant for the query. Under them, a file whose schema has a wide table or a long statement could
        # not be read at all, so the schema is read first, in the query's transaction, where it cannot change.
        connection.execute("BEGIN")
        if connection.execute(_OWN, OWN_TABLES).fetchone() == (len(OWN_TABLES),):
            raise error_of(own_store(name))
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, config.max_bytes)
        add_linear(connection, config.max_bytes)
        connection.set_authorizer(_authorise)  # last, to apply to the model's statements only
    except BaseException:
        connection.close()
        raise
    return connection


def _text(data: bytes) -> str:
    """Decode the text of a column, which SQLite allows to be invalid UTF-8."""
    return data.decode("utf-8", "replace")


def _authorise(action: int, first: str | None, second: str | None, _database: str | None, _within: str | None) -> int:
    """Decide whether a statement may do this: only reading and calling pure functions are allowed."""
    match action:
        case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_READ | sqlite3.SQLITE_RECURSIVE:
            allowed = True
        case sqlite3.SQLITE_FUNCTION:
            allowed = second is not None and second.lower() in PURE
        case sqlite3.SQLITE_PRAGMA:
            allowed = first in _ASKED and second is None
        case sqlite3.SQLITE_UPDATE:
            # Virtual tables declare their columns this way. It gives statements no access: SQLite itself refuses
            # updates of its catalogue, and the connection is read-only.
            allowed = first == "sqlite_master"
        case _:
            allowed = False
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _run(connection: sqlite3.Connection, query: str, params: Sequence[object], config: DatabaseConfig) -> QueryResult:
    with closing(connection.execute(query, tuple(params))) as cursor:
        if cursor.description is None:
            raise ToolError("the query gives no rows: it is empty, or does nothing; write one SELECT")
        rows = Rows(config.max_rows, config.max_bytes)
        for row in cursor:
            if not rows.add(row):
                break
        columns = [column[0] for column in cursor.description]
    return QueryResult(columns=columns, rows=rows.values, row_count=len(rows), truncated=rows.truncated)


def _error_for_model(error: sqlite3.Error, config: DatabaseConfig, halt: Halt, name: str) -> ToolError:
    """Return the error for the model, with all details of its query and none of the host's file."""
    kind = getattr(error, "sqlite_errorname", None) or ""
    if kind == "SQLITE_INTERRUPT":
        return error_of(timed_out(halt.seconds))
    if kind == "SQLITE_TOOBIG":
        return error_of(too_large(config.max_bytes))
    if kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return TransientError(f"the database {name!r} is being written; try again", code="database_busy")
    if str(error).startswith(_FORBIDDEN):
        return ToolError(f"SQLite: {error}; {ONLY_READS}", status=403)
    if not kind:  # from the driver: several statements, or the wrong number of parameters
        return ToolError(f"SQLite: {error}")
    if kind in _TOLD:
        return ToolError(f"SQLite: {error}")
    return ToolError(f"the database {name!r} cannot be read ({kind})", code="database_unavailable", status=503)


def add_linear(connection: sqlite3.Connection, max_bytes: int) -> None:
    """Replace functions that take quadratic time by linear ones, since a single call cannot be interrupted."""
    add = partial(connection.create_function, deterministic=True)
    add("instr", 2, _instr)
    add("replace", 3, partial(_replace, max_bytes))
    for name, side in (("trim", str.strip), ("ltrim", str.lstrip), ("rtrim", str.rstrip)):
        add(name, 2, partial(_strip, side))


def _instr(value: Value, part: Value) -> int | None:
    if value is None or part is None:
        return None
    if isinstance(value, bytes) and isinstance(part, bytes):
        return value.find(part) + 1
    return _as_text(value).find(_as_text(part)) + 1


def _replace(max_bytes: int, value: Value, old: Value, new: Value) -> str | None:
    if value is None or old is None or new is None:
        return None
    text, old_text, new_text = _as_text(value), _as_text(old), _as_text(new)
    if not old_text:
        return text
    if len(text) + text.count(old_text) * (len(new_text) - len(old_text)) > max_bytes:
        raise OverflowError  # SQLite reports this as "string or blob too big"
    return text.replace(old_text, new_text)


def _strip(side: Callable[[str, str], str], value: Value, letters: Value) -> str | None:
    if value is None or letters is None:
        return None
    # Without duplicates, since each letter is searched for.
    return side(_as_text(value), "".join(dict.fromkeys(_as_text(letters))))


def _as_text(value: str | int | float | bytes) -> str:
    """Convert a value to text, as SQLite's CAST does."""
    match value:
        case bytes():
            return value.decode("utf-8", "replace")
        case float():
            text = format(value, ".15g")
            return text if any(letter in text for letter in ".en") else f"{text}.0"
        case _:
            return str(value)
