"""Approvals; on whose behalf somebody acts; attempts and repeats of records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns that may be null, and a table; a process of the version before goes on working beside them."""
    for name in ("on_behalf_of", "approval"):
        op.add_column("records", sa.Column(name, TEXT))
    for name in ("attempts", "repeats"):
        op.add_column("records", sa.Column(name, sa.BigInteger))
    op.add_column("sessions", sa.Column("on_behalf_of", TEXT))
    names = (
        *("call", "org", "session", "agent", "principal", "on_behalf_of", "tool", "tool_hash", "runtime_hash"),
        *("arguments", "digest", "reason", "policies", "created_at", "expires_at", "status", "scope"),
        *("modified", "decided_by", "decided_at", "note"),
    )
    optional = {"on_behalf_of", "modified", "decided_by", "decided_at", "note"}
    op.create_table(
        "approvals",
        sa.Column("id", TEXT, primary_key=True),
        *(sa.Column(name, TEXT, nullable=name in optional) for name in names),
    )
    op.create_index("ix_approvals_status", "approvals", ["org", "status", "id"])
    op.create_index("ix_approvals_session", "approvals", ["org", "session", "id"])
    op.create_index("ix_approvals_expiry", "approvals", ["status", "expires_at"])
