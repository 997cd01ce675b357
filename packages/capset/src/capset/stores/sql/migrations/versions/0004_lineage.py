"""Which exact version ran: registrations, links, envelopes, transitions and the payloads of hashes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add tables; a process of the version before goes on working beside them."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "registrations",
        sa.Column("org", TEXT, primary_key=True),
        sa.Column("agent_id", TEXT, primary_key=True),
        sa.Column("static_hash", TEXT, primary_key=True),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("agent_name", TEXT, nullable=False),
        sa.Column("profile", TEXT, nullable=False),
        sa.Column("created_at", TEXT, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("org", "id", name="uq_registrations_id"),
        sa.UniqueConstraint("org", "agent_id", "number", name="uq_registrations_number"),
    )
    op.create_table(
        "links",
        sa.Column("number", number, primary_key=True),
        sa.Column("org", TEXT, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("session", TEXT),
        sa.Column("agent_id", TEXT, nullable=False),
        sa.Column("agent_name", TEXT, nullable=False),
        sa.Column("static_hash", TEXT, nullable=False),
        sa.Column("runtime_hash", TEXT, nullable=False),
        sa.Column("prompt_hash", TEXT, nullable=False),
        sa.Column("invocation_hash", TEXT),
        sa.Column("profile", TEXT, nullable=False),
        sa.Column("tool_refs", TEXT, nullable=False),
        sa.Column("metadata", TEXT, nullable=False),
        sa.Column("created_at", TEXT, nullable=False),
        sa.UniqueConstraint("org", "id", name="uq_links_id"),
    )
    op.create_index("ix_links_agent_id", "links", ["org", "agent_id", "id"])
    op.create_index("ix_links_session", "links", ["org", "session", "id"])
    op.create_index("ix_links_recorded", "links", ["org", "session", "number"])
    op.create_table(
        "envelopes",
        sa.Column("number", number, primary_key=True),
        sa.Column("org", TEXT, nullable=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("link", TEXT),
        sa.Column("schema_version", TEXT, nullable=False),
        sa.Column("body", TEXT, nullable=False),
        sa.Column("created_at", TEXT, nullable=False),
        sa.UniqueConstraint("org", "id", name="uq_envelopes_id"),
        sa.ForeignKeyConstraint(["org", "link"], ["links.org", "links.id"], name="fk_envelopes_link"),
    )
    op.create_index("ix_envelopes_link", "envelopes", ["org", "link", "number"])
    op.create_table(
        "transitions",
        sa.Column("number", number, primary_key=True),
        sa.Column("org", TEXT, nullable=False),
        sa.Column("session", TEXT, nullable=False),
        sa.Column("from_link", TEXT, nullable=False),
        sa.Column("to_link", TEXT, nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("at", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["org", "from_link"], ["links.org", "links.id"], name="fk_transitions_from_link"),
        sa.ForeignKeyConstraint(["org", "to_link"], ["links.org", "links.id"], name="fk_transitions_to_link"),
    )
    op.create_index("ix_transitions_session", "transitions", ["org", "session", "number"])
    op.create_table(
        "payloads",
        sa.Column("org", TEXT, primary_key=True),
        sa.Column("hash", TEXT, primary_key=True),
        sa.Column("profile", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("payload", TEXT, nullable=False),
    )
