"""The port of what lives in a scope: state and resources, each one JSON value under a key (spec 1, C33–C35)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

StoredScope = Literal["session", "user", "org"]
"""The scopes that outlive a run."""


@dataclass(frozen=True, slots=True)
class ScopeKey:
    """Where a value lives. ``owner`` is a session's or a user's id, or an org; ``name`` tells its values apart."""

    scope: StoredScope
    org: str | None
    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class StateRow:
    """A value as JSON text, ``None`` where there is none. ``version`` is 0 before the first write and only grows.

    A value that was deleted leaves its version behind, so that no two different values ever have the same one.
    """

    value: str | None
    version: int


Change = Callable[[StateRow], str | None]
"""From what is there to what shall be there; ``None`` deletes. It may run more than once, and off the event loop."""


class StateStore(Protocol):
    """The values. Those of a session go with it."""

    async def read(self, keys: Sequence[ScopeKey]) -> list[StateRow]:
        """Return what is at each key, in the order of the keys."""
        ...

    async def change(self, key: ScopeKey, change: Change, *, now: str) -> StateRow:
        """Replace a value by what ``change`` makes of it, in one write transaction, and return what is there now.

        Nobody else writes in between, in whatever process. What ``change`` raises leaves everything as it was, and goes
        to the caller. Deleting what is not there changes nothing. ``now`` is ISO 8601 UTC. Raises ``StateError`` for a
        session that there is not, or not any more (404), and for text with NUL or a lone surrogate in it (400).
        """
        ...
