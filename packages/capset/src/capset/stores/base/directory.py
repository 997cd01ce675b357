"""The protocol of the directory: the principals and organisations that a store knows of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from capset.stores.base.pages import Page
from capset.stores.base.sessions import MAX_SEARCHED

MAX_COUNT: Final = 10_000
"""The number up to which the keys, agents and sessions of an organisation are counted."""


@dataclass(frozen=True, slots=True)
class KnownPrincipal:
    """A principal that has sessions, and the time its newest one was created (ISO 8601 UTC)."""

    id: str
    kind: str
    last_session_at: str


@dataclass(frozen=True, slots=True)
class KnownOrg:
    """An organisation (``""``: none) and its numbers of keys, stored agents and sessions, up to ``MAX_COUNT``."""

    org: str
    keys: int
    agents: int
    sessions: int


class Directory(Protocol):
    """The principals with sessions, and the organisations with keys, stored agents or sessions."""

    async def principals(
        self,
        org: str | None,
        *,
        after: tuple[str, str] | None = None,
        limit: int = 50,
        text: str | None = None,
        max_searched: int = MAX_SEARCHED,
    ) -> Page[KnownPrincipal, tuple[str, str]]:
        """Return principals with sessions in an org, ordered by id and kind, starting after that pair in ``after``.

        ``next`` is the ``after`` of the next page. With ``text``, only those with this in their id, in upper or lower
        case (ASCII). Such a page is from the first ``max_searched`` sessions in this order, and may be empty although
        there is a next one.
        """
        ...

    async def orgs(self, *, after: str | None = None, limit: int = 50) -> list[KnownOrg]:
        """Return organisations ordered by name, starting after ``after``. The name ``""`` stands for none."""
        ...
