"""Indexes that migrations create, or leave to ``capset db upgrade`` in large databases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa
from alembic import context, op

from capset.stores.sql.postgres.online import IndexSpec, invalid_indexes

POSTPONED: Final = "indexes_postponed"
"""The attribute of Alembic's configuration that postpones indexes."""


def create_indexes(indexes: Sequence[IndexSpec]) -> None:
    """Create indexes, unless they are postponed. Unfinished indexes are created again."""
    if context.config.attributes.get(POSTPONED):
        return
    is_sqlite = op.get_context().dialect.name == "sqlite"
    broken = [] if is_sqlite else invalid_indexes(op.get_bind())
    for name, table, columns, condition in indexes:
        if name in broken:
            op.drop_index(name)
        where = None if condition is None else sa.text(condition)
        # SQLite would store the words IF NOT EXISTS as part of the index's statement.
        op.create_index(
            name, table, list(columns), sqlite_where=where, postgresql_where=where, if_not_exists=not is_sqlite
        )
