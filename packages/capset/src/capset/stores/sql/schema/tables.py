"""The tables in SQLAlchemy Core. ``schema.revisions`` creates them; tests compare the results of migrations with them.

Times are text, ISO 8601 UTC of fixed width (``capset.clock.iso``): the same on every engine, and sortable. ``org`` is
``''`` for none, since it is part of keys.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    text,
)

from capset.definitions.calls.records import COLUMNS, NULLABLE, NUMBERS
from capset.definitions.governance.usage import INTEGER_QUANTITIES, QUANTITIES

metadata: Final = MetaData()

# SQLite stores a table in the order of its key only if the key's type is spelled INTEGER.
_Sequence: Final = BigInteger().with_variant(Integer, "sqlite")


def _record_column(name: str) -> Column[Any]:
    if name == "seq":
        return Column(name, _Sequence, primary_key=True, autoincrement=False)
    return Column(name, BigInteger if name in NUMBERS else Text, nullable=name in NULLABLE)


def _partial_index(name: str, *columns: str | Column[Any], where: TextClause) -> Index:
    return Index(name, *columns, sqlite_where=where, postgresql_where=where)


def session_column(table: str, **options: Any) -> Column[Any]:  # the options of a column
    """Return the column of a table whose rows are deleted with their session."""
    return Column("session", Text, ForeignKey("sessions.id", name=f"fk_{table}_session", ondelete="CASCADE"), **options)


records: Final = Table(
    "records",
    metadata,
    *map(_record_column, COLUMNS),
    UniqueConstraint("id", "phase", name="uq_records_id_phase"),
)
"""The audit log: the columns of ``definitions.records.Record``, in their order."""

IS_OUTCOME: Final = text("phase = 'outcome'")
IS_ACT: Final = text("phase = 'act'")
IS_PENDING: Final = text("status = 'pending'")
CAN_EXPIRE: Final = text("status IN ('pending', 'approved')")
"""The conditions of the partial indexes below, as literals: with bound parameters, SQLite would not use the indexes."""

FILTERS: Final = ("tool", "outcome", "principal", "session", "correlation", "org", "agent")
"""The columns of an ``AuditQuery`` with an index each, in which a page is one range; ``id`` is unique anyway."""

for _name in FILTERS:
    _partial_index(f"ix_records_{_name}", records.c[_name], records.c.seq, where=IS_OUTCOME)

Index("ix_records_time", records.c.time, records.c.seq)

for _name in ("approval", "code", "act"):  # set in few records
    _partial_index(f"ix_records_{_name}", records.c[_name], records.c.seq, where=text(f"{_name} IS NOT NULL"))

_partial_index("ix_records_acts", records.c.seq, where=IS_ACT)

checkpoints: Final = Table(
    "checkpoints",
    metadata,
    Column("number", _Sequence, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("time", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("signature", Text, nullable=False),
    Index("ix_checkpoints_seq", "seq", "number"),
)
"""Signed heads of the log: ``fingerprint.checkpoints.Checkpoint``, with the columns in another order."""

open_intents: Final = Table(
    "open_intents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("seq", _Sequence, nullable=False),
    Column("writer", Text, nullable=False),
)
"""The intents without an outcome yet, derived from ``records`` so that finding them does not read the whole log."""

sessions: Final = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("agent", Text, nullable=False),
    Column("definition", Text, nullable=False),
    Column("static_hash", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("principal_kind", Text, nullable=False),
    Column("org", Text),
    Column("created_at", Text, nullable=False),
    Column("agent_id", Text),
    Column("agent_version", Integer),
    Column("door", Text),
    Column("on_behalf_of", Text),
    Column("invocation_hash", Text),
    Column("context", Text),
    Column("budget", Text),
    Index("ix_sessions_org", "org", "id"),
    Index("ix_sessions_principal", "org", "principal", "id"),
    Index("ix_sessions_agent_id", "agent_id", "id"),
    Index("ix_sessions_agent", "org", "agent_id", "id"),
    Index("ix_sessions_whose", "org", "principal", "principal_kind", "agent_id", "id"),
    Index("uq_sessions_door", "door", unique=True),
)

agents: Final = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("org", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("system_prompt", Text, nullable=False),
    Column("instructions", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("static_hash", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
    Column("model", Text),
    Column("static_context", Text),
    Column("author", Text),
    Column("allowance", Text),
    Column("mcp_servers", Text),
    Index("ix_agents_org", "org", "id"),
    Index("ix_agents_status", "org", "status", "id"),
    Index("ix_agents_name", "org", "name", "id"),
)
"""The stored agents; ``instructions`` and ``tags`` are JSON lists of strings, ``static_context`` is a JSON object."""

agent_versions: Final = Table(
    "agent_versions",
    metadata,
    Column("agent_id", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("org", Text, nullable=False),
    Column("static_hash", Text, nullable=False),
    Column("definition", Text, nullable=False),
    Column("author", Text),
    Column("created_at", Text, nullable=False),
    Index("ix_agent_versions_of_hash", "org", "static_hash", "agent_id", "version"),
)
"""The versions of stored agents; ``definition`` is JSON of the fields that have no column."""

agent_capabilities: Final = Table(
    "agent_capabilities",
    metadata,
    Column("agent_id", Text, ForeignKey("agents.id", name="fk_agent_capabilities_agent"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("capability_id", Text, nullable=False),
    Column("entry", Text),
    UniqueConstraint("agent_id", "capability_id", name="uq_agent_capabilities"),
)
"""The capabilities of stored agents, in order of priority; ``entry`` is JSON, null for a plain id."""

approvals: Final = Table(
    "approvals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("call", Text, nullable=False),
    Column("org", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("on_behalf_of", Text),
    Column("tool", Text, nullable=False),
    Column("tool_hash", Text, nullable=False),
    Column("runtime_hash", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("policies", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("modified", Text),
    Column("decided_by", Text),
    Column("decided_at", Text),
    Column("note", Text),
    Column("code_hash", Text),
    Column("needs", Text),
    Column("approvals", Text),
    Column("escalates_at", Text),
    Column("escalated_at", Text),
    Column("makers", Text),
    Column("unmasked", Text),
    Column("files", Text),
    Index("ix_approvals_org", "org", "id"),
    Index("ix_approvals_status", "org", "status", "id"),
    Index("ix_approvals_session", "org", "session", "id"),
    Index("ix_approvals_equal", "org", "session", "digest"),
    Index("ix_approvals_whose", "org", "principal", "status"),
    Index("ix_approvals_tool", "org", "tool", "id"),
    Index("ix_approvals_alike", "org", "tool", "agent", "status", "id"),
    Index("ix_approvals_agent", "org", "agent", "id"),
    Index("ix_approvals_principal", "org", "principal", "id"),
    _partial_index("ix_approvals_expiry", "expires_at", "id", where=CAN_EXPIRE),
    _partial_index("ix_approvals_pending", "org", "status", "created_at", where=IS_PENDING),
    _partial_index("ix_approvals_escalation", "status", "escalates_at", "id", where=text("escalates_at IS NOT NULL")),
)
"""The approval requests: ``definitions.governance.approvals.ApprovalRow``, in its order."""

deliveries: Final = Table(
    "deliveries",
    metadata,
    Column("id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("channel", "key", "event", "approval", "org")),
    *(Column(name, Text, nullable=False) for name in ("created_at", "due_at", "state")),
    Column("attempts", Integer, nullable=False),
    Column("holder", Text, nullable=False),
    *(Column(name, Text) for name in ("error", "receipt", "ended_at")),
    UniqueConstraint("channel", "key", name="uq_deliveries_key"),
    Index("ix_deliveries_due", "channel", "state", "due_at", "id"),
    Index("ix_deliveries_org", "org", "id"),
    Index("ix_deliveries_state", "org", "state", "id"),
    Index("ix_deliveries_channel", "org", "channel", "id"),
    Index("ix_deliveries_approval", "org", "approval", "id"),
    Index("ix_deliveries_created_at", "created_at"),
)
"""The deliveries of events to channels: ``stores.base.DeliveryRow``; ``receipt`` is JSON."""

people: Final = Table(
    "people",
    metadata,
    Column("id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("team", "user", "org", "principal", "principal_kind")),
    *(Column(name, Text, nullable=False) for name in ("permissions", "created_at", "created_by")),
    Column("attributes", Text),
    Column("makers", Text, nullable=False),
    UniqueConstraint("team", "user", "org", name="uq_people_user"),
    Index("ix_people_org", "org", "id"),
)
"""The principals that chat users act as, by org; ``permissions`` and ``makers`` are JSON lists of strings,
``attributes`` is a JSON object."""

api_keys: Final = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("org", Text),
    Column("principal", Text, nullable=False),
    Column("principal_kind", Text, nullable=False),
    Column("permissions", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("expires_at", Text),
    Column("revoked_at", Text),
    Column("agent", Text),
    Column("attributes", Text),
    Column("allowance", Text),
    Column("makers", Text, nullable=False),
    UniqueConstraint("digest", name="uq_api_keys_digest"),
    Index("ix_api_keys_org", "org", "id"),
)
"""The API keys, hashed; ``permissions``, ``scopes`` and ``makers`` are JSON lists of strings, ``attributes`` is a JSON
object."""

reservations: Final = Table(
    "reservations",
    metadata,
    Column("key", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("call", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("ends", BigInteger, nullable=False),
    Index("ix_reservations_ends", "ends"),
)
"""The calls that count in moving windows, numbered from 1 in each window; times are Unix time in microseconds."""

spendings: Final = Table(
    "spendings",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("cost", Double, nullable=False),
)
"""What sessions and runs have used of their budgets."""

usages: Final = Table(
    "usages",
    metadata,
    Column("key", Text, primary_key=True),
    Column("began", BigInteger, primary_key=True, autoincrement=False),
    Column("ends", BigInteger, nullable=False),
    *(Column(name, BigInteger if name in INTEGER_QUANTITIES else Double, nullable=False) for name in QUANTITIES),
    Index("ix_usages_ends", "ends"),
)
"""The parts of the windows in which model usage is counted; times are Unix time in nanoseconds."""

model_usage: Final = Table(
    "model_usage",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("org", "hour", "agent", "principal", "principal_kind")),
    *(Column(name, BigInteger if name in INTEGER_QUANTITIES else Double, nullable=False) for name in QUANTITIES),
    Index("ix_model_usage_hour", "hour"),
)
"""The model usage of each hour, such as ``2026-01-31T13``, by agent and principal."""

usage_reservations: Final = Table(
    "usage_reservations",
    metadata,
    Column("key", Text, primary_key=True),
    Column("step", Text, primary_key=True),
    Column("writer", Text, nullable=False),
    *(Column(name, BigInteger if name in INTEGER_QUANTITIES else Double, nullable=False) for name in QUANTITIES),
    Index("ix_usage_reservations_writer", "writer"),
)
"""The most that each running model step may use, in each of its windows; a step belongs to its writer."""

pins: Final = Table(
    "pins",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("server", "tool")),
    *(Column(name, Text, nullable=False) for name in ("hash", "shape", "approved_by", "approved_at")),
)
"""The approved tools of MCP servers and APIs, and the form in which each was approved."""

replies: Final = Table(
    "replies",
    metadata,
    Column("session", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("status", Integer),
    Column("body", Text),
    Column("org", Text, nullable=False),
    Column("record", Text),
    Column("size", BigInteger),
    Index("ix_replies_created_at", "created_at"),
    Index("ix_replies_org", "org", "created_at", "size"),
    _partial_index("ix_replies_reserved", "session", where=text("status IS NULL")),
)
"""The stored replies to idempotent requests."""

blobs: Final = Table(
    "blobs",
    metadata,
    Column("org", Text, primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),
)
"""The content of files, stored once per SHA-256 within an org and deleted with the last file that refers to it."""

blob_parts: Final = Table(
    "blob_parts",
    metadata,
    Column("org", Text, primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)
"""Large content, in parts numbered from 0, by org and the SHA-256 of the whole."""

loose_parts: Final = Table(
    "loose_parts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("org", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("until", Text, nullable=False),
    Index("ix_loose_parts_until", "until"),
    Index("ix_loose_parts_digest", "org", "digest", "until"),
)
"""The content in parts that no file refers to, kept until a given time; ``until`` is ``''`` if its files are gone."""

files: Final = Table(
    "files",
    metadata,
    Column("session", Text, primary_key=True),
    Column("path", Text, primary_key=True),
    Column("parent", Text, nullable=False),
    Column("is_directory", Boolean, nullable=False),
    Column("is_readonly", Boolean, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("modified_at", Text, nullable=False),
    Column("org", Text, nullable=False),
    Column("digest", Text),
    Column("parts", Text),
    ForeignKeyConstraint(["org", "digest"], ["blobs.org", "blobs.digest"], name="fk_files_blob"),
    Index("ix_files_parent", "session", "parent"),
    Index("ix_files_blob", "org", "digest"),
    Index("ix_files_usage", "session", "is_directory", "size_bytes"),
    _partial_index("ix_files_parts", "org", "parts", where=text("parts IS NOT NULL")),
)
"""The files and directories of sessions. The version of the row of ``/`` is the highest of all removed entries.

A file's content is that of ``digest`` in ``blobs``, or of ``parts`` in ``blob_parts``.
"""

states: Final = Table(
    "states",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("org", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    session_column("states"),
    Column("value", Text),
    Column("version", BigInteger, nullable=False),
    Column("updated_at", Text, nullable=False),
    Index("ix_states_session", "session"),
)
"""State and resources; ``value`` is JSON, null if deleted. ``session`` is the owner if the scope is ``session``."""

documents: Final = Table(
    "documents",
    metadata,
    Column("number", _Sequence, primary_key=True),
    Column("scope", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("org", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("id", Text, nullable=False),
    session_column("documents"),
    Column("text", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    UniqueConstraint("scope", "owner", "org", "name", "id", name="uq_documents"),
    Index("ix_documents_session", "session"),
)
"""The searchable texts; each engine indexes their words in its own way (``documents.WORD_TABLES``)."""

settings: Final = Table(
    "settings",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""The store's own settings: ``digest_key``, 64 hexadecimal digits; ``signing_keys``, JSON, newest first."""

session_events: Final = Table(
    "session_events",
    metadata,
    session_column("session_events", primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("turn", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("created_at", Text, nullable=False),
)
"""The events of sessions' turns, numbered from 1; ``data`` is JSON."""

session_turns: Final = Table(
    "session_turns",
    metadata,
    session_column("session_turns", primary_key=True),
    Column("turn", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("until", Text, nullable=False),
    Column("checkpoint", Text),
    Index("ix_session_turns_until", "until"),
)
"""The current turn of each session, and the time until which a process holds it, unless renewed.

``holder`` is ``''`` if the turn is suspended; ``checkpoint`` is JSON, null for a turn that cannot be continued.
"""

session_messages: Final = Table(
    "session_messages",
    metadata,
    session_column("session_messages", primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("turn", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("data", Text, nullable=False),
)
"""The messages of sessions' conversations, numbered from 1; ``data`` is JSON of ``size`` bytes."""
