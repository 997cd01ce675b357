"""A change of what a database has on record."""

from __future__ import annotations

import sqlite3
from contextlib import closing


def change(*statements: str) -> None:
    """Change the database as somebody can who has the file."""
    with closing(sqlite3.connect("capset.db", isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)
