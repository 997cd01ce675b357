"""The protocol of the directory: principals and organisations, as far as a store knows of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

COUNTED: Final = 10_000
"""The number up to which an organisation's keys, agents and sessions are counted."""


@dataclass(frozen=True, slots=True)
class KnownPrincipal:
    """A principal that has sessions, and when its newest one was created (ISO 8601 UTC)."""

    id: str
    kind: str
    last_session_at: str


@dataclass(frozen=True, slots=True)
class KnownOrg:
    """An organisation, ``""`` for none, and how many keys, stored agents and sessions it has, up to ``COUNTED``."""

    org: str
    keys: int
    agents: int
    sessions: int


class Directory(Protocol):
    """Principals by their sessions, and organisations by their keys, stored agents and sessions."""

    async def principals(
        self, org: str | None, *, after: tuple[str, str] | None = None, limit: int = 50
    ) -> list[KnownPrincipal]:
        """Return principals with sessions in an org, by id and kind: those that follow ``after``, an id and a kind."""
        ...

    async def orgs(self, *, after: str | None = None, limit: int = 50) -> list[KnownOrg]:
        """Return organisations by name: those that follow ``after``. What belongs to none is under ``""``."""
        ...
