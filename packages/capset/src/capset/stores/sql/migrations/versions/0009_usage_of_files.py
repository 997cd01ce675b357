"""An index by which a session's files are counted without being read.

It changes nothing but speed, as those of 0008.
"""

from __future__ import annotations

from capset.stores.sql.migrations.indexes import create_indexes

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

INDEXES = (("ix_files_usage", "files", ("session", "is_directory", "size_bytes"), None),)
"""The name of each, its table, its columns, and the condition of a partial one."""


def upgrade() -> None:
    """Add an index; a process of the version before goes on working beside it."""
    create_indexes(INDEXES)
