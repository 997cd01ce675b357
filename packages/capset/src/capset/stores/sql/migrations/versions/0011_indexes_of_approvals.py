"""Indexes by which equal calls and a principal's requests for approvals are found.

It also makes the indexes of earlier revisions that a large database may have been brought here without. They change
nothing but speed, as those of 0008.
"""

from __future__ import annotations

from importlib import import_module

from alembic import op

from capset.stores.sql.migrations.indexes import create_indexes

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_OWN = (
    ("ix_approvals_equal", "approvals", ("org", "session", "digest"), None),
    ("ix_approvals_whose", "approvals", ("org", "principal", "status"), None),
)
INDEXES = (
    *(
        index
        for earlier in ("0008_indexes", "0009_usage_of_files")
        for index in import_module(f"capset.stores.sql.migrations.versions.{earlier}").INDEXES
    ),
    *_OWN,
)
"""The name of each, its table, its columns, and the condition of a partial one."""


def upgrade() -> None:
    """Add indexes; a process of the version before goes on working beside them."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    create_indexes(_OWN if is_sqlite else INDEXES)
