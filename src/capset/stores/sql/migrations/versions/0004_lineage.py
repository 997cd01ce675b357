"""Which exact version ran: registrations, links, envelopes, transitions and the payloads of hashes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add tables; a process of the version before goes on working beside them."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "registrations",
        sa.Column("org", sa.Text, primary_key=True),
        sa.Column("agent_id", sa.Text, primary_key=True),
        sa.Column("static_hash", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("agent_name", sa.Text, nullable=False),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("org", "id", name="uq_registrations_id"),
        sa.UniqueConstraint("org", "agent_id", "number", name="uq_registrations_number"),
    )
    op.create_table(
        "links",
        sa.Column("number", number, primary_key=True),
        sa.Column("org", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("session", sa.Text),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("agent_name", sa.Text, nullable=False),
        sa.Column("static_hash", sa.Text, nullable=False),
        sa.Column("runtime_hash", sa.Text, nullable=False),
        sa.Column("prompt_hash", sa.Text, nullable=False),
        sa.Column("invocation_hash", sa.Text),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("tool_refs", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.UniqueConstraint("org", "id", name="uq_links_id"),
    )
    op.create_index("ix_links_agent_id", "links", ["org", "agent_id", "id"])
    op.create_index("ix_links_session", "links", ["org", "session", "id"])
    op.create_index("ix_links_recorded", "links", ["org", "session", "number"])
    op.create_table(
        "envelopes",
        sa.Column("number", number, primary_key=True),
        sa.Column("org", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("link", sa.Text),
        sa.Column("schema_version", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.UniqueConstraint("org", "id", name="uq_envelopes_id"),
        sa.ForeignKeyConstraint(["org", "link"], ["links.org", "links.id"], name="fk_envelopes_link"),
    )
    op.create_index("ix_envelopes_link", "envelopes", ["org", "link", "number"])
    op.create_table(
        "transitions",
        sa.Column("number", number, primary_key=True),
        sa.Column("org", sa.Text, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("from_link", sa.Text, nullable=False),
        sa.Column("to_link", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["org", "from_link"], ["links.org", "links.id"], name="fk_transitions_from_link"),
        sa.ForeignKeyConstraint(["org", "to_link"], ["links.org", "links.id"], name="fk_transitions_to_link"),
    )
    op.create_index("ix_transitions_session", "transitions", ["org", "session", "number"])
    op.create_table(
        "payloads",
        sa.Column("org", sa.Text, primary_key=True),
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
    )
