"""Rows as they lie in a database, without SQLAlchemy's types between: written many at once, read one by one.

Here is what the engines' drivers do in ways of their own.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, cast

from sqlalchemy import Connection

from capset.stores.sql.postgres.texts import escaped

# Many rows a statement: the driver lets go of the interpreter at every statement, and beside a busy event loop it waits
# up to 5 ms to get it back (measured there: 7 ms a row with executemany, 20 µs with 64 rows a statement). SQLite takes
# 32,766 parameters; few sizes keep its statement cache warm.
_SIZES: Final = (256, 64, 16, 4, 1)

_READ_AHEAD: Final = 500
"""How many rows a server sends at once."""


def marks(connection: Connection, count: int) -> str:
    """Return so many marks for parameters, as the engine's driver writes them."""
    return ", ".join(["?" if connection.dialect.name == "sqlite" else "%s"] * count)


def insert_rows(connection: Connection, table: str, names: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows into a table of this package; ``names`` are its columns, with commas between."""
    if connection.dialect.name == "sqlite":
        _insert_by_parameters(connection, f"{table} ({names})", rows)
    elif rows:
        _insert_as_json(connection, table, names, rows)


@contextmanager
def as_they_lie(connection: Connection) -> Generator[None]:
    """Read text that is not UTF-8 as bytes, where SQLite's driver would raise and not say which row it was.

    PostgreSQL holds no such text.
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    raw = cast("Any", connection.connection.dbapi_connection)  # the driver's own, which SQLAlchemy does not type
    raw.text_factory = _text
    try:
        yield
    finally:
        raw.text_factory = str


def raw_rows(connection: Connection, query: str, parameters: Sequence[str] = ()) -> Generator[Sequence[Any]]:
    """Yield what a query finds, row by row, however much it is; call it within ``as_they_lie``."""
    how = {"stream_results": True, "max_row_buffer": _READ_AHEAD}
    with connection.exec_driver_sql(query, tuple(parameters), how) as found:
        yield from found


def _insert_by_parameters(connection: Connection, into: str, rows: Sequence[tuple[Any, ...]]) -> None:
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            values = tuple([value for row in rows[start : start + size] for value in row])
            connection.exec_driver_sql(_statement(into, len(rows[0]), size), values)
            start += size


@cache
def _statement(into: str, width: int, size: int) -> str:
    row = f"({', '.join('?' * width)})"
    return f"INSERT INTO {into} VALUES {', '.join([row] * size)}"  # noqa: S608 - a table of this package


def _insert_as_json(connection: Connection, table: str, names: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows by one statement with one parameter, four times quicker than one with a parameter for each value."""
    listed = names.split(", ")
    text = _json(listed, rows)
    if "\\u0000" in text or "\\u001a" in text:  # or a backslash before such letters, which costs only time
        text = _json(listed, [tuple(escaped(one) if isinstance(one, str) else one for one in row) for row in rows])
    found = f"SELECT {names} FROM json_populate_recordset(NULL::{table}, %s)"  # noqa: S608 - names of this package
    connection.exec_driver_sql(f"INSERT INTO {table} ({names}) {found}", (text,))


def _json(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    return json.dumps([dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False)


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
