"""The first tables: records, open intents, sessions, blobs, files, settings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

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
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("time", sa.Text, nullable=False),
        sa.Column("correlation", sa.Text, nullable=False),
        sa.Column("causation", sa.Text),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("principal_kind", sa.Text, nullable=False),
        sa.Column("org", sa.Text),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("capability", sa.Text),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("effect", sa.Text),
        sa.Column("arguments", sa.Text, nullable=False),
        sa.Column("arguments_digest", sa.Text, nullable=False),
        sa.Column("decision", sa.Text),
        sa.Column("policies", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("outcome", sa.Text),
        sa.Column("code", sa.Text),
        sa.Column("duration_us", sa.BigInteger),
        sa.Column("tool_hash", sa.Text),
        sa.Column("static_hash", sa.Text, nullable=False),
        sa.Column("runtime_hash", sa.Text, nullable=False),
        sa.Column("prompt_hash", sa.Text, nullable=False),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("writer", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
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
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("seq", sequence, nullable=False),
        sa.Column("writer", sa.Text, nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("static_hash", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("principal_kind", sa.Text, nullable=False),
        sa.Column("org", sa.Text),
        sa.Column("created_at", sa.Text, nullable=False),
    )
    op.create_table(
        "blobs",
        sa.Column("org", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "files",
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("parent", sa.Text, nullable=False),
        sa.Column("is_directory", sa.Boolean, nullable=False),
        sa.Column("is_readonly", sa.Boolean, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("modified_at", sa.Text, nullable=False),
        sa.Column("org", sa.Text, nullable=False),
        sa.Column("digest", sa.Text),
        sa.ForeignKeyConstraint(["org", "digest"], ["blobs.org", "blobs.digest"], name="fk_files_blob"),
    )
    op.create_index("ix_files_parent", "files", ["session", "parent"])
    op.create_index("ix_files_blob", "files", ["org", "digest"])
    op.create_table(
        "settings",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
