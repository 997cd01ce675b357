"""The protocol of people: the principals of chat users, as administrators entered them (spec 9, N30)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from capset.stores.base.audit import Entry
from capset.stores.base.pages import Page, Query


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    """A user of a Slack workspace, by the ids of both, and the principal as which that user decides.

    ``attributes`` are JSON data; ``created_at`` is ISO 8601 UTC. ``makers`` are the principals behind the entry, as
    ``user:ada``: the one that entered the person, the one that created the key used for that, and so on; empty if the
    person was entered on the database.
    """

    id: str
    team: str
    user: str
    org: str | None
    principal: str
    principal_kind: str
    permissions: tuple[str, ...]
    created_at: str
    created_by: str
    attributes: Mapping[str, Any] | None = None
    makers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PersonQuery(Query):
    """A query for the people of one org, newest first."""

    org: str | None


class PersonStore(Protocol):
    """The people of every org. Within an org, a user of a workspace is one person."""

    async def add(self, row: PersonRow, *, act: Entry | None = None) -> bool:
        """Store a new person, unless the org already has one for that workspace user; return whether it was stored."""
        ...

    async def find(self, team: str, user: str) -> Sequence[PersonRow]:
        """Return the people for a workspace user, at most one per org, oldest first."""
        ...

    async def get(self, org: str | None, id: str) -> PersonRow | None:
        """Return a person of an org, or ``None``."""
        ...

    async def list(self, query: PersonQuery) -> Page[PersonRow]:
        """Return people, newest first."""
        ...

    async def remove(self, org: str | None, id: str, *, act: Entry | None = None) -> bool:
        """Delete a person of an org; return whether there was one."""
        ...
