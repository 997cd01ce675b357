"""Administrative acts in the record: which one, and where it came from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns that may be null; a process of the version before goes on working beside them."""
    for name in ("act", "source"):
        op.add_column("records", sa.Column(name, TEXT))
