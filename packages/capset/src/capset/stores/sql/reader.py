"""Reads, which run on threads. Each has its own transaction on a pooled connection, for a consistent snapshot."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    LargeBinary,
    Result,
    RowMapping,
    Select,
    Text,
    cast,
    func,
    tuple_,
)
from sqlalchemy.exc import DBAPIError

from capset.errors import StoreError
from capset.stores.base.pages import Page, Query
from capset.stores.pages import count_fitting, size_of
from capset.stores.sql.problems import store_errors
from capset.stores.texts import ascii_lower

_T = TypeVar("_T")


class ReadConnections:
    """Runs all reads of a store. ``name`` is the database's name, for errors."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._engine: Engine | None = None
        self._guard = threading.Lock()
        self._reading = Counter[Engine]()
        """Number of threads that read with each engine. The thread of a cancelled caller runs on."""

    def start(self, engine: Engine) -> None:
        """Use this engine for reads from now on."""
        self._engine = engine

    def stop(self) -> None:
        """Stop reading, and close the connections once none of them is in use."""
        with self._guard:
            engine, self._engine = self._engine, None
            if engine is not None and not self._reading[engine]:
                engine.dispose()

    @property
    def opened(self) -> Engine:
        """The engine. Raises ``StoreError`` if the database is not open."""
        if self._engine is None:
            raise StoreError(f"the database {self._name!r} is not open")
        return self._engine

    async def read(self, function: Callable[[Connection], _T], *, is_one_statement: bool = False) -> _T:
        """Run a function that only reads, and return its result. Database errors become ``StoreError``.

        A function that is one statement sees a consistent snapshot without a transaction. Connections are not tested
        before use: if the server has closed one since its last use, the function runs again.
        """
        _ = self.opened

        def run() -> _T:
            with self.in_use() as engine, store_errors(self._name):
                alone = is_one_statement and engine.dialect.name != "sqlite"  # where transactions cost next to nothing
                try:
                    return _run(engine, function, alone=alone)
                except DBAPIError as error:
                    if not error.connection_invalidated:
                        raise
                return _run(engine, function, alone=alone)

        return await asyncio.to_thread(run)

    async def read_one(self, statement: Select[*tuple[Any, ...]], convert: Callable[[RowMapping], _T]) -> _T | None:
        """Return the only row of a query, converted, or ``None`` if there is no row."""

        def read(connection: Connection) -> _T | None:
            row = connection.execute(statement).mappings().one_or_none()
            return None if row is None else convert(row)

        return await self.read(read, is_one_statement=True)

    async def read_all(self, statement: Select[*tuple[Any, ...]], convert: Callable[[RowMapping], _T]) -> list[_T]:
        """Return the rows of a query, converted."""
        return await self.read(
            lambda connection: [convert(row) for row in connection.execute(statement).mappings()], is_one_statement=True
        )

    async def has_rows(self, statement: Select[*tuple[Any, ...]]) -> bool:
        """Return whether a query has any rows."""
        return await self.read(
            lambda connection: connection.execute(statement.limit(1)).first() is not None, is_one_statement=True
        )

    async def read_page(
        self, statement: Select[Any], query: Query, convert: Callable[[RowMapping], _T], *, oldest_first: bool = False
    ) -> Page[_T]:
        """Return a query's page of the rows that a statement selects, converted, in the order of their ids."""
        id_column = statement.selected_columns["id"]
        if query.before is not None:
            statement = statement.where(id_column > query.before if oldest_first else id_column < query.before)
        statement = statement.order_by(id_column if oldest_first else id_column.desc())

        def read(connection: Connection) -> Page[_T]:
            rows, has_more = read_rows(connection, statement, query.limit, query.max_bytes)
            return Page(tuple(map(convert, rows)), rows[-1]["id"] if has_more else None)

        return await self.read(read)

    @contextmanager
    def in_use(self) -> Generator[Engine]:
        """Yield the engine, which is not disposed of inside the context. Raises ``StoreError`` if it is not open."""
        with self._guard:
            engine = self.opened
            self._reading[engine] += 1
        try:
            yield engine
        finally:
            with self._guard:
                self._reading[engine] -= 1
                if not self._reading[engine]:
                    del self._reading[engine]
                    if engine is not self._engine:
                        engine.dispose()


def _run(engine: Engine, function: Callable[[Connection], _T], *, alone: bool) -> _T:
    with engine.connect() as connection:
        if alone:
            connection.execution_options(isolation_level="AUTOCOMMIT")
        with connection.begin():
            return function(connection)


def byte_length(connection: Connection, column: ColumnElement[str | None]) -> ColumnElement[int]:
    """Return the size of a text in UTF-8. PostgreSQL knows it without reading the text."""
    if connection.dialect.name == "sqlite":  # whose older versions have no octet_length
        return func.length(cast(column, LargeBinary))
    return func.octet_length(column)


def contains(column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Return the condition that a column contains a part of a word; the case of ASCII letters does not matter."""
    return func.lower(column).contains(ascii_lower(text), autoescape=True)


def read_rows(
    connection: Connection, statement: Select[Any], limit: int, max_bytes: int | None
) -> tuple[list[RowMapping], bool]:
    """Return the first rows of a query, up to ``limit`` and about ``max_bytes``, and whether there are more.

    Further rows are not loaded. SQLite returns row by row. PostgreSQL, whose driver loads a whole result, is first
    queried for the sizes, and then for the rows by their keys: to find them by a filter may take a while.
    """
    statement = statement.limit(limit + 1)
    if max_bytes is None:
        rows = list(connection.execute(statement).mappings().all())
        return rows[:limit], len(rows) > limit
    if connection.dialect.name == "sqlite":
        rows = list[RowMapping]()

        def sizes(result: Result[Any]) -> Iterator[int]:
            for row in result.mappings():
                rows.append(row)
                yield size_of(row.values())

        with connection.execute(statement) as result:  # closes after errors too, which ends SQLite's read
            fitting = min(limit, count_fitting(sizes(result), max_bytes))
        return rows[:fitting], fitting < len(rows)
    texts = [column for column in statement.selected_columns if isinstance(column.type, Text)]
    first, *others = [func.coalesce(byte_length(connection, column), 0) for column in texts]
    total = sum(others, start=first)
    keys = [*statement.get_final_froms()[0].primary_key]
    measured = [tuple(row) for row in connection.execute(statement.with_only_columns(total, *keys))]
    fitting = min(limit, count_fitting((size for size, *_ in measured), max_bytes))
    page = tuple_(*keys).in_([key for _, *key in measured[:fitting]])
    return list(connection.execute(statement.where(page)).mappings()), fitting < len(measured)
