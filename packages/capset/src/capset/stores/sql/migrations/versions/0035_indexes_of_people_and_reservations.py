"""The index of people, which went with their table, that of dead writers' steps, and those that may be missing."""

from __future__ import annotations

from importlib import import_module

from alembic import op

from capset.stores.sql.migrations.indexes import create_indexes

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

_OWN = (("ix_usage_reservations_writer", "usage_reservations", ("writer",), None),)
INDEXES = (*import_module("capset.stores.sql.migrations.versions.0033_indexes_of_schedules").INDEXES, *_OWN)
"""The name of each, its table, its columns, and the condition of a partial one."""


def upgrade() -> None:
    """Add indexes; a process of the version before goes on working beside them."""
    is_sqlite = op.get_context().dialect.name == "sqlite"
    create_indexes([index for index in INDEXES if index[1] == "people" or index in _OWN] if is_sqlite else INDEXES)
