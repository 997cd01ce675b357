"""Runs that are queued for workers, and the workers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add tables. A process of the version before goes on working beside them.

    It leaves runs alone; one whose turn it continues or cancels is ended by a worker, as interrupted.
    """
    op.create_table(
        "runs",
        sa.Column("id", TEXT, primary_key=True),
        *(sa.Column(name, TEXT, nullable=False) for name in ("org", "principal", "principal_kind", "kind", "queue")),
        sa.Column(
            "session",
            TEXT,
            sa.ForeignKey("sessions.id", name="fk_runs_session", ondelete="CASCADE"),
            nullable=False,
        ),
        *(sa.Column(name, TEXT, nullable=False) for name in ("agent", "caller", "content", "correlation")),
        *(sa.Column(name, TEXT, nullable=False) for name in ("created_at", "state")),
        sa.Column("attempts", sa.Integer, nullable=False),
        *(sa.Column(name, TEXT) for name in ("due_at", "begun_at", "ended_at", "outcome", "approval")),
    )
    op.create_table(
        "workers",
        sa.Column("id", TEXT, primary_key=True),
        *(sa.Column(name, TEXT, nullable=False) for name in ("queues", "started_at", "until")),
    )
