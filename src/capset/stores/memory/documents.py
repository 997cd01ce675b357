"""The searchable texts in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from capset.errors import StoreError
from capset.stores.base import DocumentRow, ScopeKey, StoredScope
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.texts import best, gone, storable, words


class MemoryDocuments:
    """The texts, by the scope and owner that they belong to; ``sessions`` are the ids of existing sessions."""

    def __init__(self, door: Lifecycle, sessions: AbstractSet[str]) -> None:
        self._door = door
        self._sessions = sessions
        self._owned: defaultdict[tuple[StoredScope, str], defaultdict[ScopeKey, Collection]] = defaultdict(
            lambda: defaultdict(Collection)
        )

    async def add(self, key: ScopeKey, row: DocumentRow) -> None:
        """Store a text. Raises ``StoreError`` for an id that is taken, and ``StateError`` as the protocol has it."""
        self._door.check()
        storable(row.text, "the text")
        if key.scope == "session" and key.owner not in self._sessions:
            raise gone("text")
        there = self._owned[key.scope, key.owner][key]
        if row.id in there.rows:
            raise StoreError(f"there is a text {row.id!r} already")
        there.rows[row.id] = row
        there.words[row.id] = sorted(set(words(row.text)))

    async def get(self, key: ScopeKey, id: str) -> DocumentRow | None:
        """Return a text, or ``None``."""
        return self._at(key).rows.get(id)

    async def recent(self, key: ScopeKey, *, limit: int, before: str | None = None) -> list[DocumentRow]:
        """Return the newest texts first, at most ``limit``, older than the id ``before``."""
        rows = self._at(key).rows
        ids = sorted([one for one in rows if before is None or one < before], reverse=True)
        return [rows[one] for one in ids[: max(limit, 0)]]

    async def search(self, key: ScopeKey, query: str, *, limit: int) -> list[DocumentRow]:
        """Return the texts with a word that equals or begins with one of the query, at most ``limit``, best first."""
        there = self._at(key)
        return [there.rows[one] for one in best(query, there.words, limit)]

    async def delete(self, key: ScopeKey, id: str) -> bool:
        """Delete a text, and return whether there was one."""
        there = self._at(key)
        there.words.pop(id, None)
        return there.rows.pop(id, None) is not None

    def drop(self, session: str) -> None:
        """Forget the texts of a deleted session."""
        self._owned.pop(("session", session), None)

    def _at(self, key: ScopeKey) -> Collection:
        self._door.check()
        owned = self._owned.get((key.scope, key.owner))
        return owned.get(key, Collection()) if owned else Collection()


class Collection:
    """The texts of one key by their ids, and the sorted words of each."""

    def __init__(self) -> None:
        self.rows: dict[str, DocumentRow] = {}
        self.words: dict[str, Sequence[str]] = {}
