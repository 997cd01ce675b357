"""Stores in SQL databases: SQLAlchemy Core for the data, Alembic for the tables. Loaded by entry point only.

The protocols of ``stores.base`` document the methods of a store's parts.
"""

from __future__ import annotations

from capset.stores.sql.postgres.store import open_postgres
from capset.stores.sql.sqlite import open_sqlite

__all__ = ["open_postgres", "open_sqlite"]
