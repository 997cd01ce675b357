"""The protocols of scoped values, one JSON value each, and of searchable texts (spec 1, C33–C35; spec 5, P30)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, Protocol

StoredScope = Literal["session", "user", "org"]
"""The scopes that outlive a run."""


@dataclass(frozen=True, slots=True)
class ScopeKey:
    """The address of a value. ``owner`` is a session's or a user's id, or an org; ``name`` tells its values apart."""

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
"""From the current value to the new one; ``None`` deletes. It may run more than once, and off the event loop."""


class StateStore(Protocol):
    """The values. Those of a session are deleted with it."""

    async def read(self, keys: Sequence[ScopeKey]) -> list[StateRow]:
        """Return the row at each key, in the order of the keys."""
        ...

    async def change(self, key: ScopeKey, change: Change, *, now: str) -> StateRow:
        """Replace a value by the result of ``change``, in one write transaction, and return the new row.

        No other caller writes in between, in any process. An error in ``change`` leaves everything as it was, and
        propagates to the caller. Deleting a missing value changes nothing. ``now`` is ISO 8601 UTC. Raises
        ``StateError`` for a session that does not exist, or no longer (404), and for text with NUL or a lone surrogate
        in it (400).
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
        """Store a text, whose id is new under this key, and return true.

        With ``known``, ids, it is stored only if this key has no text but those, in one write transaction: no other
        caller adds one in between, in any process. False means that there is another. Texts never change, so a caller
        that has read the known ones has read all that there is.

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
