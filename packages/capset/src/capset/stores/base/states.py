"""The protocols of scoped JSON values and of searchable texts (spec 1, C33–C35; spec 5, P30)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, Protocol

StoredScope = Literal["session", "user", "org"]
"""The scopes that outlive a run."""


@dataclass(frozen=True, slots=True)
class ScopeKey:
    """The address of a value. ``owner`` is the id of a session or user, or an org; ``name`` tells its values apart."""

    scope: StoredScope
    org: str | None
    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class StateRow:
    """A value as JSON text, ``None`` if there is none. ``version`` is 0 before the first write and only grows.

    A deleted value leaves its version behind, so that no two different values ever have the same one.
    """

    value: str | None
    version: int


Change = Callable[[StateRow], str | None]
"""Returns the new value for the current one; ``None`` deletes it. May run more than once, and off the event loop."""


class StateStore(Protocol):
    """The scoped values. Those of a session are deleted with it."""

    async def read(self, keys: Sequence[ScopeKey]) -> list[StateRow]:
        """Return the row at each key, in the order of the keys."""
        ...

    async def change(self, key: ScopeKey, change: Change, *, now: str) -> StateRow:
        """Replace a value with the result of ``change``, in one write transaction, and return the new row.

        No other caller, in any process, writes in between. An error in ``change`` propagates, and nothing is changed.
        Deleting a missing value has no effect. ``now`` is ISO 8601 UTC. Raises ``StateError`` for a session that does
        not exist or no longer exists (404), and for text that contains NUL or a lone surrogate (400).
        """
        ...


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """One text. ``id`` is a UUIDv7, so that ids sort by creation; times are ISO 8601 UTC."""

    id: str
    text: str
    created_at: str


class DocumentStore(Protocol):
    """The texts of every scope; a ``ScopeKey`` names one collection of them. Those of a session are deleted with it."""

    async def add(self, key: ScopeKey, row: DocumentRow, *, known: AbstractSet[str] | None = None) -> bool:
        """Store a text whose id is new under this key, and return true.

        With ``known`` ids, the text is stored only if the key has no other texts than those; false means that it has.
        This is one write transaction, so no other caller, in any process, adds a text in between. Texts never change,
        so a caller that has read the known ones has read all of them.

        Raises ``StoreError`` if the id is taken, and ``StateError`` for a missing session (404) and for text that
        contains NUL or a lone surrogate (400).
        """
        ...

    async def get(self, key: ScopeKey, id: str) -> DocumentRow | None:
        """Return a text, or ``None``."""
        ...

    async def recent(self, key: ScopeKey, *, limit: int, before: str | None = None) -> list[DocumentRow]:
        """Return at most ``limit`` texts, newest first, that are older than the id ``before``."""
        ...

    async def search(self, key: ScopeKey, query: str, *, limit: int) -> list[DocumentRow]:
        """Return at most ``limit`` texts with a word that equals or begins with a word of the query.

        Words are compared without case and marks, by the rules and limits of ``stores.texts``. Texts with more of the
        query's words come first, then newer ones. A query without words finds nothing; queries have no special
        syntax. The cost depends only on the texts of this key.
        """
        ...

    async def delete(self, key: ScopeKey, id: str) -> bool:
        """Delete a text, and return whether there was one."""
        ...
