"""State, resources and searchable texts in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from capset.stores.base import Change, DocumentRow, ScopeKey, StateRow, StoredScope
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.rows import id_taken_error
from capset.stores.texts import missing_session_error, rank, storable, words

_ABSENT: Final = StateRow(None, 0)


class MemoryStates:
    """The values, by scope and owner. ``sessions`` has the ids of existing sessions."""

    def __init__(self, lifecycle: Lifecycle, sessions: AbstractSet[str]) -> None:
        self._lifecycle = lifecycle
        self._sessions = sessions
        self._rows: defaultdict[tuple[StoredScope, str], dict[ScopeKey, StateRow]] = defaultdict(dict)

    async def read(self, keys: Sequence[ScopeKey]) -> list[StateRow]:
        self._lifecycle.check()
        return [self._at(key) for key in keys]

    async def change(self, key: ScopeKey, change: Change, *, now: str) -> StateRow:
        self._lifecycle.check()
        if key.scope == "session" and key.owner not in self._sessions:
            raise missing_session_error("value")
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
        return self._rows.get((key.scope, key.owner), {}).get(key, _ABSENT)


class MemoryDocuments:
    """The texts, by scope and owner. ``sessions`` has the ids of existing sessions."""

    def __init__(self, lifecycle: Lifecycle, sessions: AbstractSet[str]) -> None:
        self._lifecycle = lifecycle
        self._sessions = sessions
        self._owned: defaultdict[tuple[StoredScope, str], defaultdict[ScopeKey, Collection]] = defaultdict(
            lambda: defaultdict(Collection)
        )

    async def add(self, key: ScopeKey, row: DocumentRow, *, known: AbstractSet[str] | None = None) -> bool:
        self._lifecycle.check()
        storable(row.text, "the text")
        if key.scope == "session" and key.owner not in self._sessions:
            raise missing_session_error("text")
        collection = self._owned[key.scope, key.owner][key]
        if known is not None and not collection.rows.keys() <= known:
            return False
        if row.id in collection.rows:
            raise id_taken_error("a text", row.id)
        collection.rows[row.id] = row
        collection.words[row.id] = sorted(set(words(row.text)))
        return True

    async def get(self, key: ScopeKey, id: str) -> DocumentRow | None:
        return self._at(key).rows.get(id)

    async def recent(self, key: ScopeKey, *, limit: int, before: str | None = None) -> list[DocumentRow]:
        rows = self._at(key).rows
        ids = sorted([text_id for text_id in rows if before is None or text_id < before], reverse=True)
        return [rows[text_id] for text_id in ids[: max(limit, 0)]]

    async def search(self, key: ScopeKey, query: str, *, limit: int) -> list[DocumentRow]:
        collection = self._at(key)
        return [collection.rows[text_id] for text_id in rank(query, collection.words, limit)]

    async def delete(self, key: ScopeKey, id: str) -> bool:
        collection = self._at(key)
        collection.words.pop(id, None)
        return collection.rows.pop(id, None) is not None

    def drop(self, session: str) -> None:
        """Forget the texts of a deleted session."""
        self._owned.pop(("session", session), None)

    def _at(self, key: ScopeKey) -> Collection:
        self._lifecycle.check()
        owned = self._owned.get((key.scope, key.owner))
        return owned.get(key, Collection()) if owned else Collection()


class Collection:
    """The texts of one key by id, and the sorted words of each."""

    def __init__(self) -> None:
        self.rows: dict[str, DocumentRow] = {}
        self.words: dict[str, Sequence[str]] = {}
