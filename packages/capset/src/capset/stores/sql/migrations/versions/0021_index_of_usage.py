"""The index by which parts of windows are removed, and those of earlier revisions that may be missing."""

from __future__ import annotations

from importlib import import_module

from alembic import op

from capset.stores.sql.migrations.indexes import create_indexes

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_OWN = (("ix_usages_ends", "usages", ("ends",), None),)
INDEXES = (*import_module("capset.stores.sql.migrations.versions.0019_index_of_turns").INDEXES, *_OWN)
"""The name of each, its table, its columns, and the condition of a partial one."""


def upgrade() -> None:
    """Add indexes; a process of the version before goes on working beside them."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    create_indexes(_OWN if is_sqlite else INDEXES)
