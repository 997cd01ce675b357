"""Raw database rows, without SQLAlchemy's types: written in bulk, and read one by one.

The differences between the engines' drivers are handled here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Final, cast

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InterfaceError, OperationalError, ProgrammingError

from capset.definitions.calls.records import COLUMNS
from capset.errors import StoreError
from capset.fingerprint.canonical import NotCanonical
from capset.fingerprint.chain import GENESIS, seal
from capset.stores.audit_rules import BadEntry, Row
from capset.stores.sql.inserts import batches, insert_rows
from capset.stores.sql.problems import is_too_long


def placeholders(connection: Connection, count: int) -> str:
    """Return ``count`` parameter placeholders in the style of the engine's driver."""
    return ", ".join(["?" if connection.dialect.name == "sqlite" else "%s"] * count)


@contextmanager
def undecodable_as_bytes(connection: Connection) -> Generator[None]:
    """Read text that is not UTF-8 as bytes, where SQLite's driver would raise an error that names no row.

    PostgreSQL cannot hold such text.
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    raw = cast("Any", connection.connection.dbapi_connection)  # the driver's own, which SQLAlchemy does not type
    raw.text_factory = _decode
    try:
        yield
    finally:
        raw.text_factory = str


def raw_rows(connection: Connection, query: str, parameters: Sequence[str] = ()) -> Generator[Sequence[Any]]:
    """Yield the rows of a query without loading the whole result. Call it within ``undecodable_as_bytes``."""
    options = {"stream_results": True, "max_row_buffer": 500}  # rows fetched from a server at once
    with connection.exec_driver_sql(query, tuple(parameters), options) as cursor:
        yield from cursor


def _decode(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


_values = cast("Callable[[Row], tuple[Any, ...]]", itemgetter(*COLUMNS))
_NAMES: Final = ", ".join(COLUMNS)

# Errors caused by a row itself, not by the database.
_ROW_ERRORS: Final = (IntegrityError, DataError, InterfaceError, ProgrammingError, OverflowError)
_DUPLICATE: Final = "a record was refused: a record with its id and phase already exists"
_TOO_LONG: Final = "a record was refused: its tool, principal, session or another indexed text is too long"


def extend(connection: Connection, writer: str, rows: Sequence[Row], open_ids: set[str]) -> list[BadEntry | None]:
    """Chain and insert rows, in order, within the transaction. Returns for each row its error, or ``None``.

    The head is read within the transaction, since other processes write too. ``open_ids`` has the intents whose outcome
    may be among the rows, and is kept in sync with the table ``open_intents``.
    """
    sealed, refused = _seal_all(connection, writer, rows)
    # Not `with`: a failing database may have ended the whole transaction, and this savepoint with it.
    nested = connection.begin_nested()
    try:
        _insert(connection, sealed, open_ids)
    except (*_ROW_ERRORS, OperationalError) as error:
        if not _is_refusal(error):
            raise
        nested.rollback()
        if len(rows) == 1:
            return [_bad_entry(_TOO_LONG if is_too_long(error) else _DUPLICATE, error)]
        middle = len(rows) // 2
        first = extend(connection, writer, rows[:middle], open_ids)
        return first + extend(connection, writer, rows[middle:], open_ids)
    nested.commit()
    return refused


class BatchRefused(Exception):
    """Raised if the database refuses one of several rows, and the transaction must be restarted."""


def extend_without_savepoint(
    connection: Connection, writer: str, rows: Sequence[Row], open_ids: set[str]
) -> list[BadEntry | None]:
    """Chain and insert rows without a savepoint. Raises ``BatchRefused`` if the database refuses a row.

    Otherwise like ``extend``.
    """
    sealed, refused = _seal_all(connection, writer, rows)
    try:
        _insert(connection, sealed, open_ids)
    except (*_ROW_ERRORS, OperationalError) as error:
        if not _is_refusal(error) or (isinstance(error, DBAPIError) and error.connection_invalidated):
            raise
        raise BatchRefused from error
    return refused


def _seal_all(connection: Connection, writer: str, rows: Sequence[Row]) -> tuple[list[Row], list[BadEntry | None]]:
    """Chain rows to the head. Return those that can become records, and for each row its error, or ``None``."""
    seq, previous = head(connection)
    sealed: list[Row] = []
    refused: list[BadEntry | None] = []
    for row in rows:
        row |= {"seq": seq + 1, "writer": writer, "previous": previous}
        try:
            seal(row)
        except NotCanonical as error:
            refused.append(_bad_entry("a record could not be made of its call: it holds a lone surrogate", error))
        else:
            sealed.append(row)
            refused.append(None)
            seq, previous = seq + 1, row["hash"]
    return sealed, refused


def _insert(connection: Connection, sealed: Sequence[Row], open_ids: set[str]) -> None:
    insert_rows(connection, "records", _NAMES, [_values(row) for row in sealed])
    _update_open_intents(connection, sealed, open_ids)


def _is_refusal(error: Exception) -> bool:
    return not isinstance(error, OperationalError) or is_too_long(error)


def raw_records(connection: Connection, rest: str, parameters: Sequence[str] = ()) -> Generator[Row]:
    """Yield records one by one, as stored. Call it within ``undecodable_as_bytes``.

    Invalid values are kept, so that ``fingerprint.chain.verify`` can report them. ``rest`` is the SQL that follows
    ``FROM records``.
    """
    for values in raw_rows(connection, f"SELECT {_NAMES} FROM records {rest}", parameters):  # noqa: S608 - own names
        yield dict(zip(COLUMNS, values, strict=True))


def head(connection: Connection) -> tuple[int, str]:
    """Return the last record's ``seq`` and ``hash``, even if it was pruned."""
    row = connection.exec_driver_sql("SELECT seq, hash FROM records ORDER BY seq DESC LIMIT 1").first()
    if row is None:
        row = connection.exec_driver_sql("SELECT seq, hash FROM checkpoints ORDER BY number DESC LIMIT 1").first()
    if row is None:
        return 0, GENESIS
    if type(row.hash) is not str:
        raise StoreError("the audit log is damaged at its end", hint="capset audit verify says where")
    return row.seq, row.hash


def _update_open_intents(connection: Connection, rows: Sequence[Row], open_ids: set[str]) -> None:
    """Update the open intents for rows that were just inserted."""
    opened: dict[str, tuple[str, int, str]] = {}
    closed: list[str] = []
    for row in rows:
        if row["phase"] == "intent":
            opened[row["id"]] = (row["id"], row["seq"], row["writer"])
        elif opened.pop(row["id"], None) is None and row["id"] in open_ids:
            closed.append(row["id"])
    insert_rows(connection, "open_intents", "id, seq, writer", list(opened.values()))
    for batch in batches(closed):
        deletion = f"DELETE FROM open_intents WHERE id IN ({placeholders(connection, len(batch))})"  # noqa: S608
        connection.exec_driver_sql(deletion, tuple(batch))
    open_ids.difference_update(closed)
    open_ids.update(opened)


def _bad_entry(message: str, error: Exception) -> BadEntry:
    bad = BadEntry(message)
    bad.__cause__ = error
    return bad
