"""The protocol of turns: the one that a session is in, with its holder, its events, and the conversation's messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from capset.stores.base.audit import Entry

KEPT: Final = 10_000
"""Number of events that a session retains, the newest ones."""

MessageKind = Literal["message", "summary", "inner"]
"""A message of a conversation, or a summary that stands for all messages before it."""


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
    """The turn that a session is in; ``holder`` has it ``until`` then, ISO 8601 UTC, unless that is renewed.

    The holder of a turn that is suspended is ``SUSPENDED``. A turn with a ``checkpoint``, JSON text that says where it
    stands, can be continued by any process; one without is interrupted when its time is up.
    """

    session: str
    turn: str
    holder: str
    until: str
    checkpoint: str | None = None


SUSPENDED: Final = ""
"""The holder of a turn that no process runs, since it waits for approvals."""


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
    """The turns of sessions, with their events and messages, deleted with their session.

    A session is in one turn at a time. What a turn writes is written by its holder alone: by no process that has lost
    it to another.
    """

    async def begin(
        self, turn: TurnRow, started: NewEvent, *, now: str, interrupted: NewEvent, is_run: bool = False
    ) -> Begun:
        """Begin a turn with its first event, or return the turn that the session is in already.

        An expired turn without a checkpoint ends first, with the event ``interrupted``. Raises ``StateError`` (404) for
        a missing session, and, with ``is_run``, (409) unless the turn has the id of a run that is queued: of several
        processes that begin a run at any time, one does.
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
    ) -> int:
        """Store events and messages of a turn, and return the number of the session's last event.

        ``then`` is the state of the turn from now on: its holder, time and checkpoint; ``None`` ends it. The oldest
        events are dropped beyond ``KEPT``. Raises ``StateError``: 404 for a missing session, 409 if it is no longer in
        that turn or the turn has another holder; then nothing is stored.
        """
        ...

    async def take(self, previous: TurnRow, then: TurnRow) -> bool:
        """Change the holder, time and checkpoint of a turn if all are as ``previous``; return whether they were."""
        ...

    async def due(self, now: str, *, limit: int = 100) -> Sequence[TurnRow]:
        """Return turns with a checkpoint whose time is up, those of the longest expired first.

        Their process has died, or they are suspended, and a request in their session was decided or has expired.
        """
        ...

    async def interrupt(self, session: str, *, now: str, interrupted: NewEvent) -> bool:
        """End an expired turn without a checkpoint with the event ``interrupted``; return whether there was one."""
        ...

    async def latest(self, sessions: Collection[str]) -> Mapping[str, int]:
        """Return the numbers of the last events of sessions (0: none); those that do not exist are left out."""
        ...

    def listening(self, heard: Callable[[str | None], None]) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """Call ``heard``, on the running event loop, with each session whose events another process changes.

        That is while inside; ``None`` means that some may have been missed. The value says whether such notifications
        arrive now: it is false for a store that has none, and while its connection is lost.
        """
        ...

    async def read(self, session: str, *, after: int, limit: int) -> EventPage:
        """Return the events whose numbers are greater than ``after``, at most ``limit`` of them.

        Raises ``StateError`` (404) for a missing session.
        """
        ...

    async def messages(
        self, session: str, *, after: int | None = 0, limit: int = 1_000, max_bytes: int | None = None
    ) -> MessagePage:
        """Return the messages whose numbers are greater than ``after``, at most ``limit`` of them.

        With ``None`` they begin with the newest summary, and with the first message if there is no summary.

        A page ends before a row with which its rows exceed about ``max_bytes``, but has one at least. Raises
        ``StateError`` (404) for a missing session.
        """
        ...

    async def span(self, session: str, turn: str) -> tuple[int, int] | None:
        """Return the numbers of the first and the last message of a turn, ``None`` if it has none."""
        ...

    async def rewind(self, session: str, *, to: int, act: Entry | None = None) -> int:
        """Delete the messages whose numbers are greater than ``to``, and return how many there were.

        Raises ``StateError``: 404 for a missing session, 409 if it is in a turn.
        """
        ...

    async def copy(self, source: str, target: str, *, to: int) -> int:
        """Copy the messages of a session up to the number ``to`` into another that has none; return how many.

        Raises ``StateError``: 404 if either is missing, 409 if the other has messages.
        """
        ...
