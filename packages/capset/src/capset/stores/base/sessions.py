"""The protocol of sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from capset.stores.base.audit import Entry
from capset.stores.base.pages import Page, Query

VERSION_FIELDS: Final = ("agent", "definition", "static_hash", "agent_version")
"""The fields of a session that change when it moves to another version of its agent."""
MAX_SEARCHED: Final = 10_000
"""The maximum number of sessions that one query with a ``text`` examines, for sessions or principals."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """The row of a session. ``definition`` is the agent as JSON text; times are ISO 8601 UTC.

    ``agent_id`` and ``agent_version`` name the stored agent that it began with, if any. ``door`` is set if an entry
    point keeps one session per caller: text that is unique to the session. ``on_behalf_of`` is the one that its
    principal acts for (``Principal.on_behalf_of``). ``invocation_hash`` is that of the invocation for which the session
    was created, and ``context`` JSON text that its links contain; neither ever reaches policies as ``env``. ``budget``
    is the session's total budget (``definitions.limits.Budget``) as JSON text.
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
    """A query for the sessions of one org, optionally of one principal and one stored agent; newest first."""

    org: str | None
    principal: str | None = None
    principal_kind: str | None = None
    agent_id: str | None = None
    on_behalf_of: str | None = None
    """Whom the principal acts for, with ``principal_kind``: ``None`` means sessions in which it acts for itself.

    Without ``principal_kind``, sessions on behalf of anyone match.
    """
    text: str | None = None
    """Only sessions with this in their id or in the name of their agent, in upper or lower case (ASCII).

    No index finds them: a page is from the newest ``MAX_SEARCHED`` sessions before its cursor that match the other
    filters. It may be empty although there is a next one.
    """


class SessionStore(Protocol):
    """The stored sessions."""

    async def create(self, row: SessionRow) -> None:
        """Store a new session. Raises ``StoreError`` if its id is taken."""
        ...

    async def upsert(self, row: SessionRow) -> SessionRow:
        """Store a new session with a ``door``, or update the one with that door; return the stored one.

        An existing session keeps its id, its files and its time, and gets the agent's definition, hash and version.
        """
        ...

    async def move(self, row: SessionRow, *, expected: int | None, act: Entry | None = None) -> bool:
        """Move a session to another version of its agent.

        Writes ``agent``, ``definition``, ``static_hash`` and ``agent_version``. Returns whether there was such a
        session with the expected ``agent_version`` (``None``: any).
        """
        ...

    async def get(self, id: str) -> SessionRow | None:
        """Return a session, or ``None``."""
        ...

    async def find(self, door: str) -> SessionRow | None:
        """Return the session with a door, or ``None``."""
        ...

    async def list(self, query: SessionQuery) -> Page[SessionRow]:
        """Return sessions, newest first."""
        ...

    async def delete(self, id: str, *, act: Entry | None = None) -> bool:
        """Delete a session with its files, state and texts, but not its records; return whether there was one."""
        ...
