"""Indexes by which requests are counted, escalate and are found, and those of earlier revisions that may be missing."""

from __future__ import annotations

from importlib import import_module

from alembic import op

from capset.stores.sql.migrations.indexes import create_indexes

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_OWN = (
    ("ix_approvals_pending", "approvals", ("org", "status", "created_at"), "status = 'pending'"),
    ("ix_approvals_escalation", "approvals", ("status", "escalates_at", "id"), "escalates_at IS NOT NULL"),
    *((f"ix_approvals_{name}", "approvals", ("org", name, "id"), None) for name in ("tool", "agent", "principal")),
)
INDEXES = (*import_module("capset.stores.sql.migrations.versions.0025_indexes_of_servers").INDEXES, *_OWN)
"""The name of each, its table, its columns, and the condition of a partial one."""


def upgrade() -> None:
    """Add indexes; a process of the version before goes on working beside them."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    create_indexes(_OWN if is_sqlite else INDEXES)
