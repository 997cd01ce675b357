"""The first tables: records, open intents, sessions, blobs, files, settings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables of an empty database."""
    sequence = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "records",
        sa.Column("seq", sequence, primary_key=True, autoincrement=False),
        sa.Column("id", TEXT, nullable=False),
        sa.Column("phase", TEXT, nullable=False),
        sa.Column("time", TEXT, nullable=False),
        sa.Column("correlation", TEXT, nullable=False),
        sa.Column("causation", TEXT),
        sa.Column("principal", TEXT, nullable=False),
        sa.Column("principal_kind", TEXT, nullable=False),
        sa.Column("org", TEXT),
        sa.Column("session", TEXT, nullable=False),
        sa.Column("agent", TEXT, nullable=False),
        sa.Column("capability", TEXT),
        sa.Column("tool", TEXT, nullable=False),
        sa.Column("effect", TEXT),
        sa.Column("arguments", TEXT, nullable=False),
        sa.Column("arguments_digest", TEXT, nullable=False),
        sa.Column("decision", TEXT),
        sa.Column("policies", TEXT, nullable=False),
        sa.Column("reason", TEXT),
        sa.Column("outcome", TEXT),
        sa.Column("code", TEXT),
        sa.Column("duration_us", sa.BigInteger),
        sa.Column("tool_hash", TEXT),
        sa.Column("static_hash", TEXT, nullable=False),
        sa.Column("runtime_hash", TEXT, nullable=False),
        sa.Column("prompt_hash", TEXT, nullable=False),
        sa.Column("profile", TEXT, nullable=False),
        sa.Column("writer", TEXT, nullable=False),
        sa.Column("previous", TEXT, nullable=False),
        sa.Column("hash", TEXT, nullable=False),
        sa.UniqueConstraint("id", "phase", name="uq_records_id_phase"),
    )
    for name in ("tool", "outcome", "principal", "session", "correlation"):
        op.create_index(
            f"ix_records_{name}",
            "records",
            [name, "seq"],
            sqlite_where=sa.text("phase = 'outcome'"),
            postgresql_where=sa.text("phase = 'outcome'"),
        )
    op.create_table(
        "open_intents",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("seq", sequence, nullable=False),
        sa.Column("writer", TEXT, nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("id", TEXT, primary_key=True),
        sa.Column("agent", TEXT, nullable=False),
        sa.Column("definition", TEXT, nullable=False),
        sa.Column("static_hash", TEXT, nullable=False),
        sa.Column("principal", TEXT, nullable=False),
        sa.Column("principal_kind", TEXT, nullable=False),
        sa.Column("org", TEXT),
        sa.Column("created_at", TEXT, nullable=False),
    )
    op.create_table(
        "blobs",
        sa.Column("org", TEXT, primary_key=True),
        sa.Column("digest", TEXT, primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "files",
        sa.Column("session", TEXT, primary_key=True),
        sa.Column("path", TEXT, primary_key=True),
        sa.Column("parent", TEXT, nullable=False),
        sa.Column("is_directory", sa.Boolean, nullable=False),
        sa.Column("is_readonly", sa.Boolean, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", TEXT, nullable=False),
        sa.Column("modified_at", TEXT, nullable=False),
        sa.Column("org", TEXT, nullable=False),
        sa.Column("digest", TEXT),
        sa.ForeignKeyConstraint(["org", "digest"], ["blobs.org", "blobs.digest"], name="fk_files_blob"),
    )
    op.create_index("ix_files_parent", "files", ["session", "parent"])
    op.create_index("ix_files_blob", "files", ["org", "digest"])
    op.create_table(
        "settings",
        sa.Column("name", TEXT, primary_key=True),
        sa.Column("value", TEXT, nullable=False),
    )
