"""The index by which turns are found that may go on, and those of earlier revisions that may be missing."""

from __future__ import annotations

from importlib import import_module

from alembic import op

from capset.stores.sql.migrations.indexes import create_indexes

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_OWN = (("ix_session_turns_until", "session_turns", ("until",), None),)
INDEXES = (*import_module("capset.stores.sql.migrations.versions.0017_index_of_parts").INDEXES, *_OWN)
"""The name of each, its table, its columns, and the condition of a partial one."""


def upgrade() -> None:
    """Add indexes; a process of the version before goes on working beside them."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    create_indexes(_OWN if is_sqlite else INDEXES)
