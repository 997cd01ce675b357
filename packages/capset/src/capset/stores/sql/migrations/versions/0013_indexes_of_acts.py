"""Indexes by which administrative acts are found.

It also makes the indexes of earlier revisions that a large database may have been brought here without. They change
nothing but speed, as those of 0008.
"""

from __future__ import annotations

from importlib import import_module

from alembic import op

from capset.stores.sql.migrations.indexes import create_indexes

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_OWN = (
    ("ix_records_acts", "records", ("seq",), "phase = 'act'"),
    ("ix_records_act", "records", ("act", "seq"), "act IS NOT NULL"),
)
INDEXES = (
    *import_module("capset.stores.sql.migrations.versions.0011_indexes_of_approvals").INDEXES,
    *_OWN,
)
"""The name of each, its table, its columns, and the condition of a partial one."""


def upgrade() -> None:
    """Add indexes; a process of the version before goes on working beside them."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    create_indexes(_OWN if is_sqlite else INDEXES)
