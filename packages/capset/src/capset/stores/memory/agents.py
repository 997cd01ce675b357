"""The stored agents in memory."""

from __future__ import annotations

from collections.abc import Iterable

from capset.stores.base import AgentPage, AgentQuery, AgentRow, Entry, Page, VersionQuery
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import page_of
from capset.stores.rows import copy_agent, id_taken_error
from capset.stores.texts import ascii_lower


class MemoryAgents:
    """The agents by id, and the versions of each by number."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._rows: dict[str, AgentRow] = {}
        self._versions: dict[str, dict[int, AgentRow]] = {}

    async def create(self, row: AgentRow, *, act: Entry | None = None) -> None:
        self._lifecycle.check()
        if row.id in self._rows:
            raise id_taken_error("an agent", row.id)
        self._lifecycle.record(act)
        self._put(row)

    async def get(self, org: str | None, id: str) -> AgentRow | None:
        self._lifecycle.check()
        row = self._rows.get(id)
        return copy_agent(row) if row is not None and row.org == org else None

    def all(self) -> Iterable[AgentRow]:
        """Return the agents of every organisation."""
        self._lifecycle.check()
        return self._rows.values()

    async def list(self, query: AgentQuery) -> AgentPage:
        self._lifecycle.check()
        matching = [
            row
            for row in sorted(self._rows.values(), key=lambda row: row.id, reverse=True)
            if row.org == query.org and query.status in (None, row.status) and query.name in (None, row.name)
            if query.text is None or ascii_lower(query.text) in ascii_lower(row.name)
            if not query.capabilities or any(capability.id in query.capabilities for capability in row.capabilities)
            if row.mcp_servers or not query.has_servers
        ]
        older = [row for row in matching if query.before is None or row.id < query.before]
        rows, has_more = page_of(older, query.limit, query.max_bytes)
        items = tuple([copy_agent(row) for row in rows])
        return AgentPage(items, items[-1].id if has_more else None, len(matching))

    async def replace(self, row: AgentRow, *, act: Entry | None = None) -> bool:
        last = await self.get(row.org, row.id)
        if last is None or last.version != row.version - 1:
            return False
        self._lifecycle.record(act)
        self._put(row)
        return True

    async def version(self, org: str | None, id: str, version: int) -> AgentRow | None:
        self._lifecycle.check()
        row = self._versions.get(id, {}).get(version)
        return copy_agent(row) if row is not None and row.org == org else None

    async def versions(self, query: VersionQuery) -> Page[AgentRow, int]:
        self._lifecycle.check()
        matching = [
            row
            for number, row in sorted(self._versions.get(query.agent_id, {}).items(), reverse=True)
            if row.org == query.org and (query.before is None or number < query.before)
        ]
        rows, has_more = page_of(matching, query.limit, query.max_bytes)
        items = tuple([copy_agent(row) for row in rows])
        return Page(items, items[-1].version if has_more else None)

    async def by_hash(self, org: str | None, static_hash: str) -> AgentRow | None:
        self._lifecycle.check()
        rows = (row for versions in self._versions.values() for row in versions.values())
        matching = [row for row in rows if (row.org, row.static_hash) == (org, static_hash)]
        return copy_agent(max(matching, key=lambda row: (row.id, row.version))) if matching else None

    def _put(self, row: AgentRow) -> None:
        self._rows[row.id] = copy_agent(row)
        self._versions.setdefault(row.id, {})[row.version] = self._rows[row.id]
