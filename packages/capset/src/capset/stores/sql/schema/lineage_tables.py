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
_NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")

registrations: Final = Table(
    "registrations",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("org", "agent_id", "static_hash")),
    *(Column(name, Text, nullable=False) for name in ("id", "agent_name", "profile", "created_at")),
    Column("number", BigInteger, nullable=False),
    UniqueConstraint("org", "id", name="uq_registrations_id"),
    UniqueConstraint("org", "agent_id", "number", name="uq_registrations_number"),
)
"""Agents as declared. The latest registration of an agent has its highest ``number``."""

links: Final = Table(
    "links",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("org", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("session", Text),
    *(
        Column(name, Text, nullable=False)
        for name in ("agent_id", "agent_name", "static_hash", "runtime_hash", "prompt_hash")
    ),
    Column("invocation_hash", Text),
    *(Column(name, Text, nullable=False) for name in ("profile", "tool_refs", "metadata", "created_at")),
    UniqueConstraint("org", "id", name="uq_links_id"),
    Index("ix_links_agent_id", "org", "agent_id", "id"),
    Index("ix_links_session", "org", "session", "id"),
    Index("ix_links_recorded", "org", "session", "number"),
    Index("ix_links_created_at", "created_at"),
)
"""The hashes of a turn. ``tool_refs`` is a JSON list of objects. ``session`` is not a foreign key: links outlive it."""

envelopes: Final = Table(
    "envelopes",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("org", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("link", Text),
    *(Column(name, Text, nullable=False) for name in ("schema_version", "body", "created_at")),
    UniqueConstraint("org", "id", name="uq_envelopes_id"),
    ForeignKeyConstraint(["org", "link"], ["links.org", "links.id"], name="fk_envelopes_link"),
    Index("ix_envelopes_link", "org", "link", "number"),
)

transitions: Final = Table(
    "transitions",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("org", "session", "from_link", "to_link", "reason", "at")),
    ForeignKeyConstraint(["org", "from_link"], ["links.org", "links.id"], name="fk_transitions_from_link"),
    ForeignKeyConstraint(["org", "to_link"], ["links.org", "links.id"], name="fk_transitions_to_link"),
    Index("ix_transitions_session", "org", "session", "number"),
    # A link that is removed must not be referred to.
    Index("ix_transitions_from_link", "org", "from_link"),
    Index("ix_transitions_to_link", "org", "to_link"),
)
"""Changes of a session's runtime hash, with links, reason and time."""

payloads: Final = Table(
    "payloads",
    metadata,
    Column("org", Text, primary_key=True),
    Column("hash", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("profile", "kind", "payload", "named_at")),
    Index("ix_payloads_named_at", "named_at"),
)
"""The payloads of hashes, one per hash within an org. ``named_at`` is when a process last stored it, or found it."""
