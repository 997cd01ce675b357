"""The protocol of the sessions, of their events, and of the turn that a session is in with its holder (spec 5, P10)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final, Protocol

from capset.stores.base.audit import Entry

MOVED: Final = ("agent", "definition", "static_hash", "agent_version")
"""The fields of a session that change when it moves to another version of its agent."""

KEPT: Final = 10_000
"""Number of events that a session retains, the newest ones."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """The row of a session. ``definition`` is the agent as JSON text; times are ISO 8601 UTC.

    ``agent_id`` and ``agent_version`` name the stored agent that it began with, if it was one. ``door`` is set if an
    entry point keeps one session per caller: text that no two sessions share. ``on_behalf_of`` is the one its principal
    acts for (``Principal.on_behalf_of``). ``invocation_hash`` is that of the invocation the session was made for, and
    ``context`` JSON text that its links carry; neither ever reaches policies as ``env``. ``budget`` is JSON text of the
    session's total budget (``definitions.limits.Budget``).
    """

    id: str
    agent: str
    definition: str
    static_hash: str
    principal: str
    principal_kind: str
    org: str | None
    created_at: str
    agent_id: str | None = None
    agent_version: int | None = None
    door: str | None = None
    on_behalf_of: str | None = None
    invocation_hash: str | None = None
    context: str | None = None
    budget: str | None = None


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """A query for sessions of one org, and of one principal and one stored agent if given; newest first.

    ``limit`` is 1–1,000; ``before`` is the id that the page ends before (keyset paging).
    """

    org: str | None
    principal: str | None = None
    principal_kind: str | None = None
    agent_id: str | None = None
    limit: int = 50
    before: str | None = None
    max_bytes: int | None = None
    """A page ends before a row with which its rows exceed about this size, but has one at least."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a limit beyond 1–1,000."""
        if not 1 <= self.limit <= 1000:
            raise ValueError(f"the limit of a query is 1–1,000, not {self.limit}")


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some sessions, and the ``before`` of the next page, if there is one."""

    items: tuple[SessionRow, ...]
    next: str | None


class SessionStore(Protocol):
    """The sessions."""

    async def create(self, row: SessionRow) -> None:
        """Store a new session. Raises ``StoreError`` if its id is taken."""
        ...

    async def ensure(self, row: SessionRow) -> SessionRow:
        """Store a new session with a ``door``, or update the one that has that door; return the stored one.

        An existing session keeps its id, its files and its time, and takes the agent's definition, hash and version.
        """
        ...

    async def move(self, row: SessionRow, *, expected: int | None, act: Entry | None = None) -> bool:
        """Move a session to another version of its agent.

        Writes ``agent``, ``definition``, ``static_hash`` and ``agent_version``. Return whether there was such a session
        with the expected ``agent_version``; ``None`` for any.
        """
        ...

    async def get(self, id: str) -> SessionRow | None:
        """Return a session, or ``None``."""
        ...

    async def list(self, query: SessionQuery) -> SessionPage:
        """Return sessions, newest first."""
        ...

    async def delete(self, id: str, *, act: Entry | None = None) -> bool:
        """Delete a session with its files, state and texts, and return whether there was one. Its records stay."""
        ...


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
