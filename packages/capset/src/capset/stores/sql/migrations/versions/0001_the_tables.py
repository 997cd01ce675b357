"""All tables, as defined in the code."""

from __future__ import annotations

from alembic import op

from capset.stores.sql.schema.revisions import create_tables

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables. With the first release, the statements that this runs are written out and never change."""
    create_tables(op.get_bind())
