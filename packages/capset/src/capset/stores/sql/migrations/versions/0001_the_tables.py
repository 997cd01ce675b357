"""The tables, as the code describes them."""

from __future__ import annotations

from alembic import op

from capset.stores.sql.schema.revisions import create_tables

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables. With the first release this becomes the statements that it runs today, and stays as it is."""
    create_tables(op.get_bind())
