"""The database that a command of ``capset db`` is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capset.errors import DefinitionError
from capset.stores.base import make_store

if TYPE_CHECKING:
    from capset.stores.sql.store import SqlStore


def database_at(url: str) -> SqlStore:
    """Return the store at a URL, not opened. Raises ``DefinitionError`` for one that is in no database of ours."""
    from capset.stores.sql.store import SqlStore

    store = make_store(url)
    if not isinstance(store, SqlStore):
        scheme = url.partition("://")[0]  # and no more: the rest may hold a password
        raise DefinitionError(
            f"capset db is for SQLite and PostgreSQL; a store {scheme}:// is neither", hint="name one with --db"
        )
    return store
