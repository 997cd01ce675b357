"""The pins of others' tools: what was approved of each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table. A process of the version before goes on working beside it; it uses no tools of others."""
    op.create_table(
        "pins",
        *(sa.Column(name, TEXT, primary_key=True) for name in ("server", "tool")),
        *(sa.Column(name, TEXT, nullable=False) for name in ("hash", "shape", "approved_by", "approved_at")),
    )
