"""What the doors need: stored agents, API keys, kept answers, more about sessions, records by organisation."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add tables, columns and indexes; a process of the version before goes on working beside them."""
    op.create_index(
        "ix_records_org",
        "records",
        ["org", "seq"],
        sqlite_where=sa.text("phase = 'outcome'"),
        postgresql_where=sa.text("phase = 'outcome'"),
    )
    op.add_column("sessions", sa.Column("agent_id", sa.Text))
    op.add_column("sessions", sa.Column("agent_version", sa.Integer))
    op.add_column("sessions", sa.Column("door", sa.Text))
    op.create_index("ix_sessions_org", "sessions", ["org", "id"])
    op.create_index("ix_sessions_principal", "sessions", ["org", "principal", "id"])
    op.create_index("ix_sessions_agent_id", "sessions", ["agent_id", "id"])
    op.create_index("uq_sessions_door", "sessions", ["door"], unique=True)
    op.create_table(
        "agents",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("org", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("system_prompt", sa.Text, nullable=False),
        sa.Column("instructions", sa.Text, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("static_hash", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("updated_at", sa.Text, nullable=False),
    )
    op.create_index("ix_agents_org", "agents", ["org", "id"])
    op.create_index("ix_agents_status", "agents", ["org", "status", "id"])
    op.create_index("ix_agents_name", "agents", ["org", "name", "id"])
    op.create_table(
        "agent_capabilities",
        sa.Column(
            "agent_id", sa.Text, sa.ForeignKey("agents.id", name="fk_agent_capabilities_agent"), primary_key=True
        ),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("capability_id", sa.Text, nullable=False),
        sa.UniqueConstraint("agent_id", "capability_id", name="uq_agent_capabilities"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("org", sa.Text),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("principal_kind", sa.Text, nullable=False),
        sa.Column("permissions", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Text),
        sa.Column("revoked_at", sa.Text),
        sa.UniqueConstraint("digest", name="uq_api_keys_digest"),
    )
    op.create_table(
        "replies",
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("body", sa.Text),
    )
    op.create_index("ix_replies_created_at", "replies", ["created_at"])
