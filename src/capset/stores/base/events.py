"""The protocol of sessions' events, and of the turn that a session is in with its holder (spec 5, P10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

KEPT: Final = 10_000
"""Number of events that a session retains, the newest ones."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to be stored. ``data`` is JSON text."""

    type: str
    data: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event of a turn. ``seq`` counts a session's events from 1, without gaps."""

    session: str
    seq: int
    turn: str
    type: str
    data: str
    created_at: str


@dataclass(frozen=True, slots=True)
class TurnRow:
    """The turn that a session is in; ``holder`` has it ``until`` then, ISO 8601 UTC, unless that is renewed."""

    session: str
    turn: str
    holder: str
    until: str


@dataclass(frozen=True, slots=True)
class Begun:
    """The turn that a session is in now, and the number of its last event."""

    turn: str
    last: int


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events in order, the number of the session's last one (0: none), and its current turn, if any."""

    items: tuple[EventRow, ...]
    last: int
    running: TurnRow | None


class EventStore(Protocol):
    """The events and turns of sessions, deleted with their session. A session is in one turn at a time."""

    async def begin(self, turn: TurnRow, started: NewEvent, *, now: str, interrupted: NewEvent) -> Begun:
        """Begin a turn with its first event, or return the turn that the session is in already.

        An expired turn ends first, with the event ``interrupted``. Raises ``StateError`` (404) for a missing session.
        """
        ...

    async def append(self, session: str, turn: str, events: Sequence[NewEvent], *, now: str, until: str | None) -> int:
        """Store events of a turn, extend it ``until`` then or end it with ``None``; return the last event's number.

        The oldest are dropped beyond ``KEPT``. Raises ``StateError``: 404 for a missing session, 409 if it is no longer
        in that turn; then nothing is stored.
        """
        ...

    async def interrupt(self, session: str, *, now: str, interrupted: NewEvent) -> bool:
        """End an expired turn with the event ``interrupted``, and return whether there was one."""
        ...

    async def read(self, session: str, *, after: int, limit: int) -> EventPage:
        """Return the events whose numbers are greater than ``after``, at most ``limit`` of them.

        Raises ``StateError`` (404) for a missing session.
        """
        ...
