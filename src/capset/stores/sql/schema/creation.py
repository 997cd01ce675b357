"""Creation of a SQLite database in one step from the tables in the code: faster than running all migrations.

The result equals that of the migrations on an empty database, which a test checks in every detail.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from capset.stores.sql.schema.lineage_tables import metadata  # with the tables of both modules
from capset.stores.sql.search import FTS5_TABLES

_STAMP: Final = (
    "CREATE TABLE alembic_version ("
    " version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num) )"
)
_COMPATIBLE: Final = "0006"
"""The oldest revision whose code works with this schema; the last migration to set it writes the same."""


def make(connection: Connection, revision: str) -> None:
    """Create the tables of an empty SQLite database, within the current transaction, and stamp them."""
    for statement in (*_tables(), *FTS5_TABLES, _STAMP):
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (revision,))
    connection.exec_driver_sql("INSERT INTO settings VALUES ('compatible', ?)", (_COMPATIBLE,))


@cache
def _tables() -> tuple[str, ...]:
    found: list[str] = []
    for table in metadata.sorted_tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        found += [
            str(one.compile(dialect=sqlite.dialect())) for one in (CreateTable(table), *map(CreateIndex, indexes))
        ]
    return tuple(found)
