"""A new SQLite database, made in one go of the tables that the code knows: quicker than by all the migrations.

It is what the migrations make of an empty database, which a test holds equal in every detail.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from capset.stores.sql.schema.lineage_tables import metadata  # with the tables of both modules in it
from capset.stores.sql.search import FTS5_TABLES

_STAMP: Final = (
    "CREATE TABLE alembic_version ("
    " version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num) )"
)
_COMPATIBLE: Final = "0006"
"""The oldest revision whose code works with what is made here; the last migration that has a say writes the same."""


def make(connection: Connection, revision: str) -> None:
    """Make the tables of an empty SQLite database, within the transaction that it is in, and stamp them."""
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
