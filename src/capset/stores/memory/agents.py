"""The stored agents in memory."""

from __future__ import annotations

from dataclasses import replace

from capset.errors import StoreError
from capset.stores.base import AgentPage, AgentQuery, AgentRow
from capset.stores.capabilityrows import capability_row, entry_of
from capset.stores.memory.door import Door


class MemoryAgents:
    """The agents, by id."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._rows: dict[str, AgentRow] = {}

    async def create(self, row: AgentRow) -> None:
        """Keep a new agent. Raises ``StoreError`` if there is one of its id."""
        self._door.check()
        if row.id in self._rows:
            raise StoreError(f"there is an agent {row.id!r} already")
        self._rows[row.id] = _copied(row)

    async def get(self, org: str | None, id: str) -> AgentRow | None:
        """Return an agent, or ``None``."""
        self._door.check()
        row = self._rows.get(id)
        return _copied(row) if row is not None and row.org == org else None

    async def list(self, query: AgentQuery) -> AgentPage:
        """Return agents, newest first."""
        self._door.check()
        matching = [
            row
            for row in sorted(self._rows.values(), key=lambda row: row.id, reverse=True)
            if row.org == query.org and query.status in (None, row.status) and query.name in (None, row.name)
        ]
        found = [row for row in matching if query.before is None or row.id < query.before]
        items = tuple([_copied(row) for row in found[: query.limit]])
        return AgentPage(items, len(matching), items[-1].id if len(found) > query.limit else None)

    async def version(self, org: str | None, id: str, version: int) -> AgentRow | None:
        """Return an agent as it was in one of its versions, or ``None``."""
        row = await self.get(org, id)
        return row if row is not None and row.version == version else None

    async def replace(self, row: AgentRow) -> bool:
        """Write the next version of an agent, and return whether the one before it was the last until now."""
        last = await self.get(row.org, row.id)
        if last is None or last.version != row.version - 1:
            return False
        self._rows[row.id] = _copied(row)
        return True


def _copied(row: AgentRow) -> AgentRow:
    """Return a row that shares nothing with this one that could be changed."""
    return replace(row, capabilities=tuple([capability_row(one.id, entry_of(one)) for one in row.capabilities]))
