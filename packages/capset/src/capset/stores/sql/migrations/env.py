"""Runs the migrations on the connection that ``schema`` passes, within its current transaction."""

from __future__ import annotations

from alembic import context

from capset.stores.sql.schema.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
