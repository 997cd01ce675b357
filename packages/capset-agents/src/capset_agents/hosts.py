"""Hosts of turns: they know who begins a turn, and open its session, also in another process and at another time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from capset.definitions.governance.hooks import Hooks
from capset.kernel.call.session import Session
from capset.stores.base import SessionRow


class TurnHost(Protocol):
    """Opens sessions for turns that are continued, on behalf of those who began them."""

    async def reopen(self, row: SessionRow, caller: Mapping[str, Any], hooks: Hooks) -> Session:
        """Return the session of a turn, for the caller that its checkpoint describes.

        Raises ``Unauthenticated`` if the caller is known no more, ``CallerAway`` if it has to come back itself, and
        ``NotHere`` if the turn is left to another process.
        """
        ...


class CallerAway(Exception):
    """Raised where a turn's caller has to come back with a valid credential before the turn can go on."""


class NotHere(Exception):
    """Raised where a turn is to be continued by another process than this one."""


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn that is to begin. ``caller`` is JSON data from which its host knows the caller again."""

    content: Any
    correlation: str
    caller: Mapping[str, Any]
    open: Callable[[Hooks], Awaitable[Session]]
    """Opens the session of the turn, with hooks that report its calls."""
    run: str | None = None
    """The run that the turn is, whose id it has: it begins once."""
