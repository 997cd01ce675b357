"""Deliveries to channels, and chat users, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from capset.stores.base import DeliveryQuery, DeliveryRow, Entry, Page, PersonQuery, PersonRow
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import filters_of, page_by_id


class MemoryDeliveries:
    """The deliveries, by channel and key. Ids are also unique."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._rows: dict[tuple[str, str], DeliveryRow] = {}

    def queue(self, rows: Iterable[DeliveryRow]) -> None:
        """Queue deliveries, except those whose channel already has one with the same key."""
        for row in rows:
            self._rows.setdefault((row.channel, row.key), row)

    async def claim(self, channel: str, holder: str, *, now: str, until: str, limit: int) -> Sequence[DeliveryRow]:
        self._lifecycle.check()
        due = [
            row for row in self._rows.values() if row.channel == channel and row.state == "queued" and row.due_at <= now
        ]
        batch = sorted(due, key=lambda row: (row.due_at, row.id))[:limit]
        claimed = [replace(row, holder=holder, due_at=until, attempts=row.attempts + 1) for row in batch]
        self._rows.update({(row.channel, row.key): row for row in claimed})
        return claimed

    async def settle(self, row: DeliveryRow) -> bool:
        self._lifecycle.check()
        current = self._rows.get((row.channel, row.key))
        if current is None or (current.state, current.holder, current.attempts) != ("queued", row.holder, row.attempts):
            return False
        self._rows[row.channel, row.key] = replace(row, holder="")
        return True

    async def find(self, channel: str, key: str) -> DeliveryRow | None:
        self._lifecycle.check()
        return self._rows.get((channel, key))

    async def get(self, org: str | None, id: str) -> DeliveryRow | None:
        self._lifecycle.check()
        return next((row for row in self._rows.values() if (row.org, row.id) == (org, id)), None)

    async def list(self, query: DeliveryQuery) -> Page[DeliveryRow]:
        self._lifecycle.check()
        filters = filters_of(query, ("state", "channel", "approval"))
        return page_by_id(self._rows.values(), query, {"org": query.org, **filters})

    async def retry(self, org: str | None, id: str, *, now: str, act: Entry | None = None) -> bool:
        row = await self.get(org, id)
        if row is None or row.state != "failed":
            return False
        self._lifecycle.record(act)
        self._rows[row.channel, row.key] = replace(row, state="queued", attempts=0, due_at=now, ended_at=None)
        return True

    async def sweep(self, *, before: str) -> None:
        self._lifecycle.check()
        self._rows = {key: row for key, row in self._rows.items() if row.created_at >= before}


class MemoryPeople:
    """The people, by org, workspace and user."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._rows: dict[tuple[str | None, str, str], PersonRow] = {}

    async def add(self, row: PersonRow, *, act: Entry | None = None) -> bool:
        self._lifecycle.check()
        if (row.org, row.team, row.user) in self._rows:
            return False
        self._lifecycle.record(act)
        self._rows[row.org, row.team, row.user] = row
        return True

    async def find(self, team: str, user: str) -> Sequence[PersonRow]:
        self._lifecycle.check()
        rows = [row for row in self._rows.values() if (row.team, row.user) == (team, user)]
        return sorted(rows, key=lambda row: row.id)

    async def get(self, org: str | None, id: str) -> PersonRow | None:
        self._lifecycle.check()
        return next((row for row in self._rows.values() if (row.org, row.id) == (org, id)), None)

    async def list(self, query: PersonQuery) -> Page[PersonRow]:
        self._lifecycle.check()
        return page_by_id(self._rows.values(), query, {"org": query.org})

    async def remove(self, org: str | None, id: str, *, act: Entry | None = None) -> bool:
        row = await self.get(org, id)
        if row is None:
            return False
        self._lifecycle.record(act)
        del self._rows[row.org, row.team, row.user]
        return True
