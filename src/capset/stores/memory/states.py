"""State and resources in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from capset.stores.base import Change, ScopeKey, StateRow, StoredScope
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.texts import gone, storable

_NOTHING: Final = StateRow(None, 0)


class MemoryStates:
    """The values, by the scope and owner that they belong to; ``sessions`` are the ids of existing sessions."""

    def __init__(self, door: Lifecycle, sessions: AbstractSet[str]) -> None:
        self._door = door
        self._sessions = sessions
        self._rows: defaultdict[tuple[StoredScope, str], dict[ScopeKey, StateRow]] = defaultdict(dict)

    async def read(self, keys: Sequence[ScopeKey]) -> list[StateRow]:
        """Return the row at each key, in the order of the keys."""
        self._door.check()
        return [self._at(key) for key in keys]

    async def change(self, key: ScopeKey, change: Change, *, now: str) -> StateRow:
        """Replace a value by the result of ``change``, and return the new row.

        An error in ``change`` leaves everything as it was. Raises ``StateError`` (404) for a missing session.
        """
        self._door.check()
        if key.scope == "session" and key.owner not in self._sessions:
            raise gone("value")
        there = self._at(key)
        value = change(there)
        if value is None and there.value is None:
            return there
        row = StateRow(value if value is None else storable(value, "the value"), there.version + 1)
        self._rows[key.scope, key.owner][key] = row
        return row

    def drop(self, session: str) -> None:
        """Forget the values of a deleted session."""
        self._rows.pop(("session", session), None)

    def _at(self, key: ScopeKey) -> StateRow:
        return self._rows.get((key.scope, key.owner), {}).get(key, _NOTHING)
