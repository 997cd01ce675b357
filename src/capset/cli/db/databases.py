"""The target database of ``capset db``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capset.errors import DefinitionError
from capset.stores.base import make_store

if TYPE_CHECKING:
    from capset.stores.sql.store import SqlStore


def database_at(url: str) -> SqlStore:
    """Return the unopened store at a URL. Raises ``DefinitionError`` for a URL that is not of a database."""
    from capset.stores.sql.store import SqlStore

    store = make_store(url)
    if not isinstance(store, SqlStore):
        scheme = url.partition("://")[0]  # only the scheme: the rest may contain a password
        raise DefinitionError(
            f"capset db is for SQLite and PostgreSQL; a store {scheme}:// is neither", hint="name one with --db"
        )
    return store
