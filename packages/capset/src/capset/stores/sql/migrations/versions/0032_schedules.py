"""Schedules, by which runs are queued again and again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table. A process of the version before goes on working beside it, and leaves schedules alone."""
    op.create_table(
        "schedules",
        sa.Column("id", TEXT, primary_key=True),
        *(sa.Column(name, TEXT, nullable=False) for name in ("org", "principal", "principal_kind", "cron", "timezone")),
        *(sa.Column(name, TEXT, nullable=False) for name in ("kind", "queue", "agent")),
        sa.Column("session", TEXT, sa.ForeignKey("sessions.id", name="fk_schedules_session", ondelete="CASCADE")),
        *(sa.Column(name, TEXT, nullable=False) for name in ("caller", "content", "created_at")),
        *(sa.Column(name, TEXT) for name in ("next_at", "last_at", "last_run", "problem")),
    )
