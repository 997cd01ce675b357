"""What the doors need: stored agents, API keys, kept answers, more about sessions, records by organisation."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

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
    op.add_column("sessions", sa.Column("agent_id", TEXT))
    op.add_column("sessions", sa.Column("agent_version", sa.Integer))
    op.add_column("sessions", sa.Column("door", TEXT))
    op.create_index("ix_sessions_org", "sessions", ["org", "id"])
    op.create_index("ix_sessions_principal", "sessions", ["org", "principal", "id"])
    op.create_index("ix_sessions_agent_id", "sessions", ["agent_id", "id"])
    op.create_index("uq_sessions_door", "sessions", ["door"], unique=True)
    op.create_table(
        "agents",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("org", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("system_prompt", TEXT, nullable=False),
        sa.Column("instructions", TEXT, nullable=False),
        sa.Column("tags", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("static_hash", TEXT, nullable=False),
        sa.Column("created_at", TEXT, nullable=False),
        sa.Column("updated_at", TEXT, nullable=False),
    )
    op.create_index("ix_agents_org", "agents", ["org", "id"])
    op.create_index("ix_agents_status", "agents", ["org", "status", "id"])
    op.create_index("ix_agents_name", "agents", ["org", "name", "id"])
    op.create_table(
        "agent_capabilities",
        sa.Column("agent_id", TEXT, sa.ForeignKey("agents.id", name="fk_agent_capabilities_agent"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("capability_id", TEXT, nullable=False),
        sa.UniqueConstraint("agent_id", "capability_id", name="uq_agent_capabilities"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("org", TEXT),
        sa.Column("principal", TEXT, nullable=False),
        sa.Column("principal_kind", TEXT, nullable=False),
        sa.Column("permissions", TEXT, nullable=False),
        sa.Column("scopes", TEXT, nullable=False),
        sa.Column("created_at", TEXT, nullable=False),
        sa.Column("expires_at", TEXT),
        sa.Column("revoked_at", TEXT),
        sa.UniqueConstraint("digest", name="uq_api_keys_digest"),
    )
    op.create_table(
        "replies",
        sa.Column("session", TEXT, primary_key=True),
        sa.Column("key", TEXT, primary_key=True),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("created_at", TEXT, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("body", TEXT),
    )
    op.create_index("ix_replies_created_at", "replies", ["created_at"])
