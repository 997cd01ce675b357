"""The messages of sessions' conversations, and the checkpoints of their turns."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table, and a column that may be null.

    A process of the version before goes on working beside them. It ends a suspended turn as interrupted when its time
    is up.
    """
    op.create_table(
        "session_messages",
        sa.Column(
            "session",
            TEXT,
            sa.ForeignKey("sessions.id", name="fk_session_messages_session", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, TEXT, nullable=False) for name in ("turn", "kind", "created_at")),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("data", TEXT, nullable=False),
    )
    op.add_column("session_turns", sa.Column("checkpoint", TEXT))
