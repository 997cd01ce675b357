"""The deliveries of events to channels, and the users of chats as principals."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add tables. A process of the version before goes on working beside it; what it does is told to no channel."""
    op.create_table(
        "deliveries",
        sa.Column("id", TEXT, primary_key=True),
        *(sa.Column(name, TEXT, nullable=False) for name in ("channel", "key", "event", "approval", "org")),
        *(sa.Column(name, TEXT, nullable=False) for name in ("created_at", "due_at", "state")),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("holder", TEXT, nullable=False),
        *(sa.Column(name, TEXT) for name in ("error", "receipt", "ended_at")),
        sa.UniqueConstraint("channel", "key", name="uq_deliveries_key"),
    )
    op.create_table(
        "people",
        sa.Column("id", TEXT, primary_key=True),
        *(sa.Column(name, TEXT, nullable=False) for name in ("team", "user", "org", "principal", "principal_kind")),
        *(sa.Column(name, TEXT, nullable=False) for name in ("permissions", "created_at", "created_by")),
        sa.Column("attributes", TEXT),
        sa.UniqueConstraint("team", "user", name="uq_people_user"),
    )
