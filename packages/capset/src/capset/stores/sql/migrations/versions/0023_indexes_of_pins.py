"""The indexes of earlier revisions that may be missing; pins need none of their own."""

from __future__ import annotations

from importlib import import_module

from alembic import op

from capset.stores.sql.migrations.indexes import create_indexes

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

INDEXES = import_module("capset.stores.sql.migrations.versions.0021_index_of_usage").INDEXES
"""The name of each, its table, its columns, and the condition of a partial one."""


def upgrade() -> None:
    """Add indexes that opening a large database left out; a process of the version before works on beside them."""
    if op.get_context().dialect.name != "sqlite":
        create_indexes(INDEXES)
