"""The directory in memory: principals and organisations, derived from other stored data."""

from __future__ import annotations

from collections.abc import Iterable

from capset.stores.base import Page, SessionRow
from capset.stores.base.directory import MAX_COUNT, KnownOrg, KnownPrincipal
from capset.stores.base.sessions import MAX_SEARCHED
from capset.stores.memory.agents import MemoryAgents
from capset.stores.memory.keys import MemoryKeys
from capset.stores.memory.sessions import MemorySessions
from capset.stores.texts import ascii_lower


class MemoryDirectory:
    """Principals and organisations, collected on request."""

    def __init__(self, sessions: MemorySessions, agents: MemoryAgents, keys: MemoryKeys) -> None:
        self._sessions = sessions
        self._agents = agents
        self._keys = keys

    async def principals(
        self,
        org: str | None,
        *,
        after: tuple[str, str] | None = None,
        limit: int = 50,
        text: str | None = None,
        max_searched: int = MAX_SEARCHED,
    ) -> Page[KnownPrincipal, tuple[str, str]]:
        newest: dict[tuple[str, str], SessionRow] = {}
        following: list[tuple[str, str]] = []
        for row in self._sessions.all():
            identity = row.principal, row.principal_kind
            if row.org == org and (after is None or identity > after):
                following.append(identity)
                if identity not in newest or newest[identity].id < row.id:
                    newest[identity] = row
        following.sort()
        end = None
        if text is not None and len(following) > max_searched:
            following = following[:max_searched]
            end = following[-1]
        part = ascii_lower(text or "")
        matching = [identity for identity in dict.fromkeys(following) if part in ascii_lower(identity[0])]
        items = tuple([KnownPrincipal(*identity, newest[identity].created_at) for identity in matching[:limit]])
        return Page(items, matching[limit - 1] if len(matching) > limit else end)

    async def orgs(self, *, after: str | None = None, limit: int = 50) -> list[KnownOrg]:
        keys = [row.org or "" for row in await self._keys.list()]
        agents = [row.org or "" for row in self._agents.all()]
        sessions = [row.org or "" for row in self._sessions.all()]
        names = sorted({name for name in (*keys, *agents, *sessions) if after is None or name > after})[:limit]
        return [KnownOrg(name, _count(keys, name), _count(agents, name), _count(sessions, name)) for name in names]


def _count(orgs: Iterable[str], name: str) -> int:
    return min(MAX_COUNT, sum(org == name for org in orgs))
