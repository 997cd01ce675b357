"""Checkpoints; and what records are looked for by that few of them have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table and two small indexes; a process of the version before goes on working beside them."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "checkpoints",
        sa.Column("number", number, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("hash", TEXT, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        *(sa.Column(name, TEXT, nullable=False) for name in ("time", "previous", "key", "signature")),
    )
    op.create_index("ix_checkpoints_seq", "checkpoints", ["seq", "number"])
    for name in ("approval", "code"):
        some = sa.text(f"{name} IS NOT NULL")
        op.create_index(f"ix_records_{name}", "records", [name, "seq"], sqlite_where=some, postgresql_where=some)
