"""Versions of agents, events and turns of sessions, and what agents, sessions and keys have besides."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NEW = {
    "agents": ("model", "static_context", "author"),
    "sessions": ("invocation_hash", "context"),
    "api_keys": ("agent",),
}


def upgrade() -> None:
    """Add tables and columns that may be null; a process of the version before goes on working beside them."""
    for table, names in _NEW.items():
        for name in names:
            op.add_column(table, sa.Column(name, TEXT))
    op.create_table(
        "agent_versions",
        sa.Column("agent_id", TEXT, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        *(sa.Column(name, TEXT, nullable=False) for name in ("org", "static_hash", "definition")),
        sa.Column("author", TEXT),
        sa.Column("created_at", TEXT, nullable=False),
    )
    op.create_index("ix_agent_versions_hash", "agent_versions", ["org", "static_hash"])
    op.create_table(
        "session_events",
        _session("session_events"),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        *(sa.Column(name, TEXT, nullable=False) for name in ("turn", "type", "data", "created_at")),
    )
    op.create_table(
        "session_turns",
        _session("session_turns"),
        *(sa.Column(name, TEXT, nullable=False) for name in ("turn", "holder", "until")),
    )


def _session(table: str) -> sa.Column[str]:
    # An old process that deletes a session takes these rows along.
    foreign_key = sa.ForeignKey("sessions.id", name=f"fk_{table}_session", ondelete="CASCADE")
    return sa.Column("session", TEXT, foreign_key, primary_key=True)
