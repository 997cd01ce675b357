"""The protocol of turns: a session's current turn with its holder, its events, and the conversation's messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from capset.stores.base.audit import Entry
from capset.stores.base.runs import RunRow

MAX_EVENTS: Final = 10_000
"""The maximum number of events that a session retains; the oldest are dropped."""

MessageKind = Literal["message", "summary", "inner"]
"""A message of a conversation, a summary of all messages before it, or a message of an agent within a call."""


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
class NewMessage:
    """A message of a conversation to be stored. ``data`` is JSON text."""

    kind: MessageKind
    data: str


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message of a session's conversation, and the turn that it belongs to.

    ``seq`` counts a session's messages from 1, without gaps.
    """

    session: str
    seq: int
    turn: str
    kind: MessageKind
    data: str
    created_at: str


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Some messages in order, and the number and the bytes of all messages of the session."""

    items: tuple[MessageRow, ...]
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TurnRow:
    """The turn that a session is in. ``holder`` has a lease on it ``until`` that time (ISO 8601 UTC).

    The holder of a suspended turn is ``SUSPENDED``. A turn with a ``checkpoint``, JSON text with its progress, can be
    continued by any process; one without is interrupted when its lease expires.
    """

    session: str
    turn: str
    holder: str
    until: str
    checkpoint: str | None = None


SUSPENDED: Final = ""
"""The holder of a turn that waits for approvals, so that no process runs it."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The turn that a session is now in, and the number of its last event."""

    turn: str
    last: int


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events in order, the number of the session's last one (0: none), and its current turn, if any."""

    items: tuple[EventRow, ...]
    last: int
    running: TurnRow | None


class EventStore(Protocol):
    """The turns of sessions, with their events and messages, deleted with their session.

    A session is in one turn at a time. Only the holder of a turn can write to it, not a process that has lost it to
    another.
    """

    async def begin(
        self,
        turn: TurnRow,
        started: NewEvent,
        *,
        now: str,
        interrupted: NewEvent,
        is_queued: bool = False,
        run: RunRow | None = None,
    ) -> Begun:
        """Begin a turn with its first event, or return the turn that the session is already in.

        An expired turn without a checkpoint is ended first, with the event ``interrupted``. Raises ``StateError``: 404
        for a missing session; with ``is_queued``, 409 unless the turn has the id of a queued run, so that only one
        of several processes can begin the run. ``run`` is the run of a turn that was not queued, stored with it.
        """
        ...

    async def append(
        self,
        held: TurnRow,
        events: Sequence[NewEvent],
        *,
        now: str,
        then: TurnRow | None,
        messages: Sequence[NewMessage] = (),
        usage: str | None = None,
    ) -> int:
        """Store events and messages of a turn, and return the number of the session's last event.

        ``usage`` is what the turn has used so far, as JSON text, for its run once the turn has ended or is suspended.

        ``then`` has the new holder, time and checkpoint of the turn; ``None`` ends it. Beyond ``MAX_EVENTS``, the
        oldest events are dropped. Raises ``StateError``, and stores nothing: 404 for a missing session, 409 if it is no
        longer in that turn or the turn has another holder.
        """
        ...

    async def take(self, previous: TurnRow, then: TurnRow) -> bool:
        """Change a turn's holder, time and checkpoint if all are still as in ``previous``; return whether they were."""
        ...

    async def due(self, now: str, *, limit: int = 100) -> Sequence[TurnRow]:
        """Return turns with a checkpoint whose lease has expired, the longest expired first.

        Their process has died, or they are suspended and a request in their session was decided or has expired.
        """
        ...

    async def interrupt(self, session: str, *, now: str, interrupted: NewEvent) -> bool:
        """End an expired turn without a checkpoint with the event ``interrupted``; return whether there was one."""
        ...

    async def latest(self, sessions: Collection[str]) -> Mapping[str, int]:
        """Return the number of each session's last event (0: none). Missing sessions are left out."""
        ...

    async def read(self, session: str, *, after: int, limit: int) -> EventPage:
        """Return at most ``limit`` events whose numbers are greater than ``after``.

        Raises ``StateError`` (404) for a missing session.
        """
        ...

    async def event_span(self, session: str, turn: str) -> tuple[int, int] | None:
        """Return the numbers of the first and the last stored event of a turn, or ``None`` if it has none."""
        ...

    async def messages(
        self, session: str, *, after: int | None = 0, limit: int = 1_000, max_bytes: int | None = None
    ) -> MessagePage:
        """Return at most ``limit`` messages whose numbers are greater than ``after``.

        If ``after`` is ``None``, they begin with the newest summary, or with the first message if there is none. A page
        ends before the row with which it would exceed about ``max_bytes``, but has at least one row. Raises
        ``StateError`` (404) for a missing session.
        """
        ...

    async def span(self, session: str, turn: str) -> tuple[int, int] | None:
        """Return the numbers of the first and the last message of a turn, or ``None`` if it has none."""
        ...

    async def rewind(self, session: str, *, to: int, act: Entry | None = None) -> int:
        """Delete the messages whose numbers are greater than ``to``, and return how many there were.

        Raises ``StateError``: 404 for a missing session, 409 if it is in a turn.
        """
        ...

    async def copy(self, source: str, target: str, *, to: int) -> int:
        """Copy a session's messages up to the number ``to`` into another session; return how many were copied.

        Raises ``StateError``: 404 if either session is missing, 409 if the target has messages already.
        """
        ...
