"""The usage of models by agents, counted in windows that processes share."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from capset.stores.sql.schema.column_types import TEXT

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table. A process of the version before goes on working beside it; what its turns use is not counted."""
    op.create_table(
        "usages",
        sa.Column("key", TEXT, primary_key=True),
        sa.Column("began", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("ends", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("steps", "calls", "tokens")),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("cost", "seconds")),
    )
