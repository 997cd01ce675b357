"""Stored replies by organisation, with their sizes and records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns that may be null; a process of the version before goes on working beside them."""
    for name in ("org", "record"):
        op.add_column("replies", sa.Column(name, TEXT))
    op.add_column("replies", sa.Column("size", sa.BigInteger))
