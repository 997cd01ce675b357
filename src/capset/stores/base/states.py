"""The protocol of scoped values: state and resources, each one JSON value under a key (spec 1, C33–C35)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
