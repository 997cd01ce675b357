"""The protocol of the sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from capset.stores.base.audit import Entry
from capset.stores.base.pages import Page, Query

MOVED: Final = ("agent", "definition", "static_hash", "agent_version")
"""The fields of a session that change when it moves to another version of its agent."""


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
class SessionQuery(Query):
    """A query for sessions of one org, and of one principal and one stored agent if given; newest first."""

    org: str | None
    principal: str | None = None
    principal_kind: str | None = None
    agent_id: str | None = None
    on_behalf_of: str | None = None
    """Whom the ``principal`` acts for, if one is given; ``None`` asks for the sessions in which it acts for itself."""


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

    async def find(self, door: str) -> SessionRow | None:
        """Return the session that has a door, or ``None``."""
        ...

    async def list(self, query: SessionQuery) -> Page[SessionRow]:
        """Return sessions, newest first."""
        ...

    async def delete(self, id: str, *, act: Entry | None = None) -> bool:
        """Delete a session with its files, state and texts, and return whether there was one. Its records stay."""
        ...
