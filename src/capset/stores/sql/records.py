"""Records as rows: made from entries, chained, inserted; and read again as they lie in the file (spec 4, G20–G22)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from operator import itemgetter
from typing import Any, Final, cast

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError, InterfaceError, ProgrammingError

from capset.definitions.records import COLUMNS
from capset.errors import StoreError
from capset.fingerprint.canonical import NotCanonical
from capset.fingerprint.chain import GENESIS, seal
from capset.stores.entries import BadEntry, Row

_values = cast("Callable[[Row], tuple[Any, ...]]", itemgetter(*COLUMNS))
_NAMES: Final = ", ".join(COLUMNS)

# Many rows a statement: the driver lets go of the interpreter at every statement, and beside a busy event loop it waits
# up to 5 ms to get it back (measured there: 7 ms a row with executemany, 20 µs with 64 rows a statement). SQLite takes
# 32,766 parameters; few sizes keep its statement cache warm.
_SIZES: Final = (256, 64, 16, 4, 1)

# What a row itself is to blame for, not the database.
_REFUSED: Final = (IntegrityError, DataError, InterfaceError, ProgrammingError, OverflowError)


def extend(connection: Connection, writer: str, rows: Sequence[Row], open_ids: set[str]) -> list[BadEntry | None]:
    """Chain and insert rows, in order, within the transaction; return for each why it was refused, or ``None``.

    The head is read here, in the transaction, since other processes write too. ``open_ids`` are the intents whose
    outcome may be among the rows; the set and the table ``open_intents`` are kept in step.
    """
    seq, previous = _head(connection)
    sealed: list[Row] = []
    refused: list[BadEntry | None] = []
    for row in rows:
        row |= {"seq": seq + 1, "writer": writer, "previous": previous}
        try:
            seal(row)
        except NotCanonical as error:
            refused.append(_because("a record could not be made of its call: it holds a lone surrogate", error))
        else:
            sealed.append(row)
            refused.append(None)
            seq, previous = seq + 1, row["hash"]
    # Not `with`: where the database fails, it may have ended the whole transaction, and this savepoint with it.
    nested = connection.begin_nested()
    try:
        _insert(connection, f"records ({_NAMES})", [_values(row) for row in sealed])
        _settle(connection, sealed, open_ids)
    except _REFUSED as error:
        nested.rollback()
        if len(rows) == 1:
            return [_because("a record was refused: there is one of its id and phase already", error)]
        middle = len(rows) // 2
        first = extend(connection, writer, rows[:middle], open_ids)
        return first + extend(connection, writer, rows[middle:], open_ids)
    nested.commit()
    return refused


@contextmanager
def as_they_lie(connection: Connection) -> Generator[None]:
    """Read text that is not UTF-8 as bytes, where the driver would raise and not say which row it was."""
    raw = cast("Any", connection.connection.dbapi_connection)  # the driver's own, which SQLAlchemy does not type
    raw.text_factory = _text
    try:
        yield
    finally:
        raw.text_factory = str


def raw_records(connection: Connection, rest: str, parameters: Sequence[str] = ()) -> Iterator[Row]:
    """Yield records one by one, without any conversion of types; call it within ``as_they_lie``.

    A value that no record can hold stays what it is, for ``fingerprint.chain.verify`` to name. ``rest`` is the SQL that
    follows ``FROM records``.
    """
    raw = cast("Any", connection.connection.dbapi_connection)
    cursor = raw.execute(f"SELECT {_NAMES} FROM records {rest}", tuple(parameters))  # noqa: S608 - own names
    for values in cursor:
        yield dict(zip(COLUMNS, values, strict=True))


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _head(connection: Connection) -> tuple[int, str]:
    """Return the last record's ``seq`` and ``hash``."""
    row = connection.exec_driver_sql("SELECT seq, hash FROM records ORDER BY seq DESC LIMIT 1").first()
    if row is None:
        return 0, GENESIS
    if type(row.hash) is not str:
        raise StoreError("the audit log is damaged at its end", hint="capset audit verify says where")
    return row.seq, row.hash


def _settle(connection: Connection, rows: Sequence[Row], open_ids: set[str]) -> None:
    """Bring the open intents in step with rows that were just inserted."""
    opened: dict[str, tuple[str, int, str]] = {}
    closed: list[str] = []
    for row in rows:
        if row["phase"] == "intent":
            opened[row["id"]] = (row["id"], row["seq"], row["writer"])
        elif opened.pop(row["id"], None) is None and row["id"] in open_ids:
            closed.append(row["id"])
    _insert(connection, "open_intents (id, seq, writer)", list(opened.values()))
    for start in range(0, len(closed), 1000):
        some = tuple(closed[start : start + 1000])
        marks = ", ".join("?" * len(some))
        connection.exec_driver_sql(f"DELETE FROM open_intents WHERE id IN ({marks})", some)  # noqa: S608
    open_ids.difference_update(closed)
    open_ids.update(opened)


def _insert(connection: Connection, into: str, rows: Sequence[tuple[Any, ...]]) -> None:
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


def _because(message: str, error: Exception) -> BadEntry:
    bad = BadEntry(message)
    bad.__cause__ = error
    return bad
