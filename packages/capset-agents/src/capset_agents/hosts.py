"""Hosts of turns: they identify a turn's caller and open its session, even later and in another process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from capset.definitions.governance.hooks import Hooks
from capset.kernel.call.session import Session
from capset.stores.base import SessionRow


class TurnHost(Protocol):
    """Opens the sessions of continued turns on behalf of their callers."""

    async def reopen(self, row: SessionRow, caller: Mapping[str, Any], hooks: Hooks) -> Session:
        """Open the session of a turn for the caller that its checkpoint describes.

        Raises ``Unauthenticated`` if the caller is no longer known, ``CallerAbsent`` if the caller has to return first,
        and ``WrongProcess`` if another process should continue the turn.
        """
        ...


class CallerAbsent(Exception):
    """Raised if a turn cannot continue until its caller returns with a valid credential."""


class WrongProcess(Exception):
    """Raised if another process should continue the turn."""


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn to begin. ``caller`` is JSON data by which the host can identify the caller again."""

    content: Any
    correlation: str
    caller: Mapping[str, Any]
    open: Callable[[Hooks], Awaitable[Session]]
    """Opens the session of the turn, with hooks that report its calls."""
    run: str | None = None
    """The id of the queued run that the turn executes. It is also the turn's id, so that the turn begins only once."""
