"""An index by which a session's files are counted without being read.

It changes nothing but speed, as those of 0008.
"""

from __future__ import annotations

from alembic import op

from capset.stores.sql.postgres.online import invalid_indexes

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

INDEXES = (("ix_files_usage", "files", ("session", "is_directory", "size_bytes"), None),)
"""The name of each, its table, its columns, and the condition of a partial one."""


def upgrade() -> None:
    """Add an index; a process of the version before goes on working beside it."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    for name, table, columns, _ in INDEXES:
        if not is_sqlite and name in invalid_indexes(op.get_bind()):
            op.drop_index(name)
        op.create_index(name, table, list(columns), if_not_exists=not is_sqlite)
