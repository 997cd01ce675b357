"""State and resources in SQL: one row for each key, changed on the writer's thread (spec 1, C34)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, select, update

from capset.stores.base import Change, ScopeKey, StateRow
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import sessions, states
from capset.stores.sql.writer.writer import Writer
from capset.stores.texts import missing_session_error, storable

_ABSENT: Final = StateRow(None, 0)

_owned: Final = [states.c[part] == bindparam(f"at_{part}") for part in ("scope", "owner", "org")]
_at: Final = [*_owned, states.c.name == bindparam("at_name")]
_SELECT: Final = select(states.c.value, states.c.version).where(*_at)
_SELECT_SOME: Final = select(states.c.name, states.c.value, states.c.version).where(
    *_owned, states.c.name.in_(bindparam("names", expanding=True))
)
_UPDATE: Final = update(states).where(*_at)


def columns_of(key: ScopeKey) -> Mapping[str, str | None]:
    """Return the values of a row's columns for its key."""
    session = key.owner if key.scope == "session" else None
    return {**key_columns(key), "session": session}


def key_columns(key: ScopeKey) -> Mapping[str, str]:
    """Return the columns that identify a key."""
    return {"scope": key.scope, "owner": key.owner, "org": key.org or "", "name": key.name}


def require_session(connection: Connection, key: ScopeKey, noun: str) -> None:
    """Raise ``StateError`` (404) if the key's session is missing; ``noun`` names the value in the error."""
    if key.scope == "session":
        query = select(sessions.c.id).where(sessions.c.id == key.owner)
        if connection.execute(query).first() is None:
            raise missing_session_error(noun)


class SqlStates:
    """State and resources. A session's rows refer to it, so they are deleted with it, by any process."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def read(self, keys: Sequence[ScopeKey]) -> list[StateRow]:
        # One statement per owner, since SQLite uses no index for a list of whole keys.
        names: defaultdict[ScopeKey, list[str]] = defaultdict(list)
        for key in dict.fromkeys(keys):
            names[_owner(key)].append(key.name)

        def read(connection: Connection) -> list[StateRow]:
            rows: dict[ScopeKey, StateRow] = {}
            names_per_statement = 500
            for owner, owner_names in names.items():
                for start in range(0, len(owner_names), names_per_statement):
                    parameters = {**_parameters(owner), "names": owner_names[start : start + names_per_statement]}
                    for row in connection.execute(_SELECT_SOME, parameters):
                        rows[replace(owner, name=row.name)] = StateRow(row.value, row.version)
            return [rows.get(key, _ABSENT) for key in keys]

        return await self._reader.read(read)

    async def change(self, key: ScopeKey, change: Change, *, now: str) -> StateRow:
        at = _parameters(key)

        def write(connection: Connection) -> StateRow:
            stored = connection.execute(_SELECT, at).one_or_none()
            if stored is None:  # otherwise its session exists too
                require_session(connection, key, "value")
            current = StateRow(stored.value, stored.version) if stored else _ABSENT
            value = change(current)
            if value is None and current.value is None:
                return current
            row = StateRow(value if value is None else storable(value, "the value"), current.version + 1)
            values = {"value": row.value, "version": row.version, "updated_at": now}
            if stored is None:
                connection.execute(insert(states), {**columns_of(key), **values})
            else:
                connection.execute(_UPDATE, {**at, **values})
            return row

        return await self._writer.write(write)


def _owner(key: ScopeKey) -> ScopeKey:
    return replace(key, name="")


def _parameters(key: ScopeKey) -> dict[str, Any]:
    return {f"at_{part}": value for part, value in key_columns(key).items()}
