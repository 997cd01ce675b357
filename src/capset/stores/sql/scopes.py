"""The columns of a ``ScopeKey``, the same in the tables of values and of texts."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, select

from capset.stores.base import ScopeKey
from capset.stores.sql.schema.tables import sessions
from capset.stores.texts import gone


def columns_of(key: ScopeKey) -> Mapping[str, str | None]:
    """Return the values of a row's columns for its key."""
    session = key.owner if key.scope == "session" else None
    return {**where(key), "session": session}


def where(key: ScopeKey) -> Mapping[str, str]:
    """Return the columns that tell keys apart."""
    return {"scope": key.scope, "owner": key.owner, "org": key.org or "", "name": key.name}


def require_session(connection: Connection, key: ScopeKey, what: str) -> None:
    """Raise ``StateError`` (404) for a key of a missing session; ``what`` names the value it would hold."""
    if key.scope == "session":
        asked = select(sessions.c.id).where(sessions.c.id == key.owner)
        if connection.execute(asked).first() is None:
            raise gone(what)
