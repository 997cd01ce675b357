"""Indexes for lists of large databases, and which versions may still work on the database.

They change nothing but speed, so capset works without them: on a large PostgreSQL database they are made beside its
writers before this runs, by ``postgres.online``, and one that was left unfinished is made anew.
"""

from __future__ import annotations

from alembic import op

from capset.stores.sql.migrations.indexes import create_indexes

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

INDEXES = (
    ("ix_records_agent", "records", ("agent", "seq"), "phase = 'outcome'"),
    ("ix_records_time", "records", ("time", "seq"), None),
    ("ix_approvals_org", "approvals", ("org", "id"), None),
    ("ix_agent_versions_of_hash", "agent_versions", ("org", "static_hash", "agent_id", "version"), None),
    ("ix_sessions_agent", "sessions", ("org", "agent_id", "id"), None),
    ("ix_sessions_whose", "sessions", ("org", "principal", "principal_kind", "agent_id", "id"), None),
    ("ix_api_keys_org", "api_keys", ("org", "id"), None),
)
"""The name of each, its table, its columns, and the condition of a partial one."""


def upgrade() -> None:
    """Add indexes; a process of the version before goes on working beside them."""
    create_indexes(INDEXES)
    op.drop_index("ix_agent_versions_hash", if_exists=True)  # which did not find the newest first
    # The oldest revision whose code works with this one; code that does not know a revision looks here.
    op.execute("INSERT INTO settings (name, value) VALUES ('compatible', '0006')")
