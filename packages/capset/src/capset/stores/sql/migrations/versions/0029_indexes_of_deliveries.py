"""The indexes by which deliveries and people are found, and those of earlier revisions that may be missing."""

from __future__ import annotations

from importlib import import_module

from alembic import op

from capset.stores.sql.migrations.indexes import create_indexes

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_OWN = (
    ("ix_deliveries_due", "deliveries", ("channel", "state", "due_at", "id"), None),
    ("ix_deliveries_org", "deliveries", ("org", "id"), None),
    ("ix_deliveries_state", "deliveries", ("org", "state", "id"), None),
    ("ix_deliveries_channel", "deliveries", ("org", "channel", "id"), None),
    ("ix_deliveries_approval", "deliveries", ("org", "approval", "id"), None),
    ("ix_deliveries_created_at", "deliveries", ("created_at",), None),
    ("ix_people_org", "people", ("org", "id"), None),
)
INDEXES = (*import_module("capset.stores.sql.migrations.versions.0027_indexes_of_pending_approvals").INDEXES, *_OWN)
"""The name of each, its table, its columns, and the condition of a partial one."""


def upgrade() -> None:
    """Add indexes; a process of the version before goes on working beside them."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    create_indexes(_OWN if is_sqlite else INDEXES)
