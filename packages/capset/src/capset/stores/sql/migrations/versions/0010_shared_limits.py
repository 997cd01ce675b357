"""Limits and budgets that processes share, attributes of principals, and hashes of code."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_NEW = {
    "records": ("attributes_digest", "code_hash"),
    "approvals": ("code_hash",),
    "api_keys": ("attributes", "allowance"),
    "agents": ("allowance",),
    "sessions": ("budget",),
}


def upgrade() -> None:
    """Add tables and columns that may be null; a process of the version before goes on working beside them."""
    for table, names in _NEW.items():
        for name in names:
            op.add_column(table, sa.Column(name, TEXT))
    op.create_table(
        "reservations",
        sa.Column("key", TEXT, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("call", TEXT, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("at", "ends")),
    )
    op.create_index("ix_reservations_ends", "reservations", ["ends"])
    op.create_table(
        "spendings",
        sa.Column("owner", TEXT, primary_key=True),
        sa.Column("calls", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.Double, nullable=False),
    )
