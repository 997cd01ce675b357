"""The protocol of the searchable texts (spec 5, P30)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from capset.stores.base.states import ScopeKey


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """One text. ``id`` is a UUIDv7, so that ids sort by creation; times are ISO 8601 UTC."""

    id: str
    text: str
    created_at: str


class DocumentStore(Protocol):
    """The texts of every scope; a ``ScopeKey`` names one collection of them. Those of a session are deleted with it."""

    async def add(self, key: ScopeKey, row: DocumentRow) -> None:
        """Store a text, whose id is new under this key.

        Raises ``StoreError`` for an id that is taken, and ``StateError`` for a missing session (404) and for text with
        NUL or a lone surrogate in it (400).
        """
        ...

    async def get(self, key: ScopeKey, id: str) -> DocumentRow | None:
        """Return a text, or ``None``."""
        ...

    async def recent(self, key: ScopeKey, *, limit: int, before: str | None = None) -> list[DocumentRow]:
        """Return the newest texts first, at most ``limit``, older than the id ``before``."""
        ...

    async def search(self, key: ScopeKey, query: str, *, limit: int) -> list[DocumentRow]:
        """Return the texts with a word that equals or begins with one of the query, at most ``limit``.

        Words are compared without case and without marks, by the rules and bounds of ``stores.texts``. Texts with more
        of the query's words come first, then newer ones. A query without any word finds nothing; nothing in a query is
        syntax. The cost depends on the texts of this key alone.
        """
        ...

    async def delete(self, key: ScopeKey, id: str) -> bool:
        """Delete a text, and return whether there was one."""
        ...
