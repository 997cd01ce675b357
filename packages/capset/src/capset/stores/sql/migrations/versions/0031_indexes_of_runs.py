"""The indexes by which runs are found, and those of earlier revisions that may be missing."""

from __future__ import annotations

from importlib import import_module

from alembic import op

from capset.stores.sql.migrations.indexes import create_indexes

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

_OWN = (
    ("ix_runs_principal", "runs", ("org", "principal", "principal_kind", "id"), None),
    ("ix_runs_state", "runs", ("org", "state"), None),
    ("ix_runs_due", "runs", ("queue", "due_at", "id"), None),
    ("ix_runs_waiting", "runs", ("state", "kind", "id"), None),
    ("ix_runs_session", "runs", ("session",), None),
)
INDEXES = (*import_module("capset.stores.sql.migrations.versions.0029_indexes_of_deliveries").INDEXES, *_OWN)
"""The name of each, its table, its columns, and the condition of a partial one."""


def upgrade() -> None:
    """Add indexes; a process of the version before goes on working beside them."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    create_indexes(_OWN if is_sqlite else INDEXES)
