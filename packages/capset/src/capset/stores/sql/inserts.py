"""Statements for many rows: bulk inserts, and parameters in batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from sqlalchemy import Connection

from capset.stores.sql.postgres.texts import escaped

_T = TypeVar("_T")

MAX_BATCH: Final = 500
"""Maximum number of ids per statement."""

# The driver releases the interpreter lock at every statement, and while an event loop is busy it waits up to 5 ms to
# reacquire it (measured: 7 ms per row with executemany, 20 µs with 64 rows per statement). SQLite accepts 32,766
# parameters, and its statement cache holds all of these statements.
_ROWS_PER_STATEMENT: Final = (256, 128, 64, 32, 16, 8, 4, 2, 1)


def batches(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Return the items in batches, each for the parameters of one statement."""
    return (items[start : start + MAX_BATCH] for start in range(0, len(items), MAX_BATCH))


def insert_rows(connection: Connection, table: str, names: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows into a table of this package. ``names`` lists its columns, separated by commas."""
    if connection.dialect.name == "sqlite":
        _insert_by_parameters(connection, f"{table} ({names})", rows)
    elif rows:
        _insert_as_json(connection, table, names, rows)


def _insert_by_parameters(connection: Connection, into: str, rows: Sequence[tuple[Any, ...]]) -> None:
    start = 0
    for size in _ROWS_PER_STATEMENT:
        while len(rows) - start >= size:
            values = tuple([value for row in rows[start : start + size] for value in row])
            connection.exec_driver_sql(_statement(into, len(rows[0]), size), values)
            start += size


@cache
def _statement(into: str, width: int, size: int) -> str:
    row = f"({', '.join('?' * width)})"
    return f"INSERT INTO {into} VALUES {', '.join([row] * size)}"  # noqa: S608 - a table of this package


def _insert_as_json(connection: Connection, table: str, names: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows with one JSON parameter, which is four times faster than one parameter per value."""
    columns = names.split(", ")
    text = _json(columns, rows)
    if "\\u0000" in text or "\\u001a" in text:  # or a backslash before such letters, which only costs time
        text = _json(columns, [tuple(escaped(cell) if isinstance(cell, str) else cell for cell in row) for row in rows])
    subquery = f"SELECT {names} FROM json_populate_recordset(NULL::{table}, %s)"  # noqa: S608 - names of this package
    connection.exec_driver_sql(f"INSERT INTO {table} ({names}) {subquery}", (text,))


def _json(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    return json.dumps([dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False)
