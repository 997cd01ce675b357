"""The port of what is told of sessions' turns, and of who has the turn that a session is in (spec 5, P10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

KEPT: Final = 10_000
"""How many events a session keeps, the newest ones."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Something to be told. ``data`` is JSON text."""

    type: str
    data: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """Something that was told of a turn. ``seq`` counts a session's events from 1, without gaps."""

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
    """Which turn a session is in now, and the number of its last event."""

    turn: str
    last: int


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events in order, the number of the session's last one (0: none), and the turn that it is in, if in any."""

    items: tuple[EventRow, ...]
    last: int
    running: TurnRow | None


class EventStore(Protocol):
    """The events and turns of sessions; they go with their session. A session is in one turn at a time."""

    async def begin(self, turn: TurnRow, started: NewEvent, *, now: str, interrupted: NewEvent) -> Begun:
        """Begin a turn with its first event, unless the session is in another: then that one is returned.

        One whose time is up ends first, with the event ``interrupted``. Raises ``StateError`` (404) for a session that
        is not there.
        """
        ...

    async def append(self, session: str, turn: str, events: Sequence[NewEvent], *, now: str, until: str | None) -> int:
        """Keep more events of a turn, and hold it ``until`` then, or end it with ``None``; return the last's number.

        The oldest go where there are more than ``KEPT``. Raises ``StateError``: 404 for a session that is not there,
        409 where it is not in that turn any more; nothing is kept then.
        """
        ...

    async def interrupt(self, session: str, *, now: str, interrupted: NewEvent) -> bool:
        """End a turn whose time is up with the event ``interrupted``, and return whether there was one."""
        ...

    async def read(self, session: str, *, after: int, limit: int) -> EventPage:
        """Return the events whose numbers are greater than ``after``, at most ``limit`` of them.

        Raises ``StateError`` (404) for a session that is not there.
        """
        ...
