"""Indexes for lists of large databases (spec 5, P15)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add indexes; a process of the version before goes on working beside them."""
    outcome = sa.text("phase = 'outcome'")
    op.create_index("ix_records_agent", "records", ["agent", "seq"], sqlite_where=outcome, postgresql_where=outcome)
    op.create_index("ix_records_time", "records", ["time", "seq"])
    op.create_index("ix_approvals_org", "approvals", ["org", "id"])
    op.create_index("ix_sessions_whose", "sessions", ["org", "principal", "principal_kind", "agent_id", "id"])
    op.create_index("ix_api_keys_org", "api_keys", ["org", "id"])
