"""The port of the sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

MOVED: Final = ("agent", "definition", "static_hash", "agent_version")
"""What of a session changes when it moves to another version of its agent."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """What is kept of a session. ``definition`` is the agent as JSON text; times are ISO 8601 UTC.

    ``agent_id`` and ``agent_version`` name the stored agent that it began with, if it was one. ``door`` is set where a
    door keeps one session for whoever enters by it (spec 5, P16): text that no two sessions share. ``on_behalf_of`` is
    whom its principal acts for (``Principal.on_behalf_of``). ``invocation_hash`` is that of what the session was made
    for (spec 2, F9), and ``context`` JSON text that its links carry; neither ever reaches policies as ``env``.
    ``budget`` is JSON text of what may be used in it in all (``definitions.limits.Budget``).
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
    """Which sessions: those of one org, and of one principal and one stored agent if given; newest first.

    ``limit`` is 1–1,000; ``before`` is the id that the page ends before (keyset paging, spec 5, P15).
    """

    org: str | None
    principal: str | None = None
    principal_kind: str | None = None
    agent_id: str | None = None
    limit: int = 50
    before: str | None = None

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a limit beyond 1–1,000."""
        if not 1 <= self.limit <= 1000:
            raise ValueError(f"the limit of a query is 1–1,000, not {self.limit}")


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some sessions, and the ``before`` that asks for those that follow them, if there are any."""

    items: tuple[SessionRow, ...]
    next: str | None


class SessionStore(Protocol):
    """The sessions."""

    async def create(self, row: SessionRow) -> None:
        """Keep a new session. Raises ``StoreError`` if there is one of its id."""
        ...

    async def ensure(self, row: SessionRow) -> SessionRow:
        """Keep a new session with a ``door``, or bring up to date the one that has that door; return what is kept.

        The one that is there keeps its id, its files and its time, and takes the agent's definition, hash and version.
        """
        ...

    async def move(self, row: SessionRow, *, expected: int | None) -> bool:
        """Take another version of a session's agent: its ``agent``, ``definition``, ``static_hash``, ``agent_version``.

        Return whether there was such a session and it had the ``agent_version`` that was expected; ``None`` for any.
        """
        ...

    async def get(self, id: str) -> SessionRow | None:
        """Return a session, or ``None``."""
        ...

    async def list(self, query: SessionQuery) -> SessionPage:
        """Return sessions, newest first."""
        ...

    async def delete(self, id: str) -> bool:
        """Delete a session with its files, state and texts, and return whether there was one. Its records stay."""
        ...
