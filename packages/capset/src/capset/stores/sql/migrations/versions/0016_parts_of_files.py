"""Large content in parts, which are written by transactions of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add tables and a column that may be null.

    A process of the version before goes on working beside them. It takes a file in parts for a directory: it refuses to
    read or replace it, and moves and deletes it.
    """
    op.create_table(
        "blob_parts",
        sa.Column("org", TEXT, primary_key=True),
        sa.Column("digest", TEXT, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "loose_parts",
        sa.Column("id", TEXT, primary_key=True),
        *(sa.Column(name, TEXT, nullable=False) for name in ("org", "digest", "until")),
    )
    op.add_column("files", sa.Column("parts", TEXT))
    if op.get_context().dialect.name == "postgresql":  # its compression takes longer than writing what it saves
        op.execute("ALTER TABLE blob_parts ALTER COLUMN content SET STORAGE EXTERNAL")
