"""State, resources and searchable texts in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from capset.errors import StoreError
from capset.stores.base import Change, DocumentRow, ScopeKey, StateRow, StoredScope
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.texts import best, gone, storable, words

_NOTHING: Final = StateRow(None, 0)


class MemoryStates:
    """The values, by scope and owner. ``sessions`` has the ids of existing sessions."""

    def __init__(self, door: Lifecycle, sessions: AbstractSet[str]) -> None:
        self._door = door
        self._sessions = sessions
        self._rows: defaultdict[tuple[StoredScope, str], dict[ScopeKey, StateRow]] = defaultdict(dict)

    async def read(self, keys: Sequence[ScopeKey]) -> list[StateRow]:
        """Return the row at each key, in the order of the keys."""
        self._door.check()
        return [self._at(key) for key in keys]

    async def change(self, key: ScopeKey, change: Change, *, now: str) -> StateRow:
        """Replace a value with the result of ``change``, and return the new row.

        An error in ``change`` leaves everything as it was. Raises ``StateError`` (404) for a missing session.
        """
        self._door.check()
        if key.scope == "session" and key.owner not in self._sessions:
            raise gone("value")
        current = self._at(key)
        value = change(current)
        if value is None and current.value is None:
            return current
        row = StateRow(value if value is None else storable(value, "the value"), current.version + 1)
        self._rows[key.scope, key.owner][key] = row
        return row

    def drop(self, session: str) -> None:
        """Forget the values of a deleted session."""
        self._rows.pop(("session", session), None)

    def _at(self, key: ScopeKey) -> StateRow:
        return self._rows.get((key.scope, key.owner), {}).get(key, _NOTHING)


class MemoryDocuments:
    """The texts, by scope and owner. ``sessions`` has the ids of existing sessions."""

    def __init__(self, door: Lifecycle, sessions: AbstractSet[str]) -> None:
        self._door = door
        self._sessions = sessions
        self._owned: defaultdict[tuple[StoredScope, str], defaultdict[ScopeKey, Collection]] = defaultdict(
            lambda: defaultdict(Collection)
        )

    async def add(self, key: ScopeKey, row: DocumentRow, *, known: AbstractSet[str] | None = None) -> bool:
        """Store a text, unless the key has texts that are not in ``known``; return whether it was stored.

        Raises as ``DocumentStore.add`` does.
        """
        self._door.check()
        storable(row.text, "the text")
        if key.scope == "session" and key.owner not in self._sessions:
            raise gone("text")
        collection = self._owned[key.scope, key.owner][key]
        if known is not None and not collection.rows.keys() <= known:
            return False
        if row.id in collection.rows:
            raise StoreError(f"there is a text {row.id!r} already")
        collection.rows[row.id] = row
        collection.words[row.id] = sorted(set(words(row.text)))
        return True

    async def get(self, key: ScopeKey, id: str) -> DocumentRow | None:
        """Return a text, or ``None``."""
        return self._at(key).rows.get(id)

    async def recent(self, key: ScopeKey, *, limit: int, before: str | None = None) -> list[DocumentRow]:
        """Return up to ``limit`` texts with ids less than ``before``, newest first."""
        rows = self._at(key).rows
        ids = sorted([text_id for text_id in rows if before is None or text_id < before], reverse=True)
        return [rows[text_id] for text_id in ids[: max(limit, 0)]]

    async def search(self, key: ScopeKey, query: str, *, limit: int) -> list[DocumentRow]:
        """Return up to ``limit`` texts with a word that starts with a word of the query, best first."""
        collection = self._at(key)
        return [collection.rows[text_id] for text_id in best(query, collection.words, limit)]

    async def delete(self, key: ScopeKey, id: str) -> bool:
        """Delete a text, and return whether there was one."""
        collection = self._at(key)
        collection.words.pop(id, None)
        return collection.rows.pop(id, None) is not None

    def drop(self, session: str) -> None:
        """Forget the texts of a deleted session."""
        self._owned.pop(("session", session), None)

    def _at(self, key: ScopeKey) -> Collection:
        self._door.check()
        owned = self._owned.get((key.scope, key.owner))
        return owned.get(key, Collection()) if owned else Collection()


class Collection:
    """The texts of one key by id, and the sorted words of each."""

    def __init__(self) -> None:
        self.rows: dict[str, DocumentRow] = {}
        self.words: dict[str, Sequence[str]] = {}
