"""The MCP servers that stored agents declare."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column that may be null; a process of the version before goes on working beside it, without the servers."""
    op.add_column("agents", sa.Column("mcp_servers", TEXT))
