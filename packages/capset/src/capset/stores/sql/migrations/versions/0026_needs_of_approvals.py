"""Needs of requests by rules for approvers, the approvals that they have, and escalations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns that may be null. A process of the version before works on beside them, and knows no rules."""
    for name in ("needs", "approvals", "escalates_at", "escalated_at"):
        op.add_column("approvals", sa.Column(name, TEXT))
