"""The tables of lineage (spec 2, F28–F29). The other tables are in ``schema.tables``.

Every row belongs to one org (``''`` for none). ``number`` is the order of recording, from which ids may differ.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
)

from capset.stores.sql.schema.tables import metadata

# SQLite assigns keys automatically only if their type is written INTEGER.
_Sequence: Final = BigInteger().with_variant(Integer, "sqlite")

registrations: Final = Table(
    "registrations",
    metadata,
    Column("org", Text, primary_key=True),
    Column("agent_id", Text, primary_key=True),
    Column("static_hash", Text, primary_key=True),
    Column("id", Text, nullable=False),
    Column("agent_name", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("number", BigInteger, nullable=False),
    UniqueConstraint("org", "id", name="uq_registrations_id"),
    UniqueConstraint("org", "agent_id", "number", name="uq_registrations_number"),
)
"""Agents as declared. The latest registration of an agent has its highest ``number``."""

links: Final = Table(
    "links",
    metadata,
    Column("number", _Sequence, primary_key=True),
    Column("org", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("session", Text),
    Column("agent_id", Text, nullable=False),
    Column("agent_name", Text, nullable=False),
    Column("static_hash", Text, nullable=False),
    Column("runtime_hash", Text, nullable=False),
    Column("prompt_hash", Text, nullable=False),
    Column("invocation_hash", Text),
    Column("profile", Text, nullable=False),
    Column("tool_refs", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    UniqueConstraint("org", "id", name="uq_links_id"),
    Index("ix_links_agent_id", "org", "agent_id", "id"),
    Index("ix_links_session", "org", "session", "id"),
    Index("ix_links_recorded", "org", "session", "number"),
)
"""The hashes of a turn. ``tool_refs`` is a JSON list of objects. ``session`` is not a foreign key: links outlive it."""

envelopes: Final = Table(
    "envelopes",
    metadata,
    Column("number", _Sequence, primary_key=True),
    Column("org", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("link", Text),
    Column("schema_version", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    UniqueConstraint("org", "id", name="uq_envelopes_id"),
    ForeignKeyConstraint(["org", "link"], ["links.org", "links.id"], name="fk_envelopes_link"),
    Index("ix_envelopes_link", "org", "link", "number"),
)

transitions: Final = Table(
    "transitions",
    metadata,
    Column("number", _Sequence, primary_key=True),
    Column("org", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("from_link", Text, nullable=False),
    Column("to_link", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", Text, nullable=False),
    ForeignKeyConstraint(["org", "from_link"], ["links.org", "links.id"], name="fk_transitions_from_link"),
    ForeignKeyConstraint(["org", "to_link"], ["links.org", "links.id"], name="fk_transitions_to_link"),
    Index("ix_transitions_session", "org", "session", "number"),
)
"""Changes of a session's runtime hash, with links, reason and time."""

payloads: Final = Table(
    "payloads",
    metadata,
    Column("org", Text, primary_key=True),
    Column("hash", Text, primary_key=True),
    Column("profile", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("payload", Text, nullable=False),
)
"""The payloads of hashes, one per hash within an org."""
