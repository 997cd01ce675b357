"""Deliveries to channels, and chat users, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from capset.stores.base import DeliveryQuery, DeliveryRow, Entry, Page, PersonQuery, PersonRow
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import page_of


class MemoryDeliveries:
    """The deliveries, by channel and key. Ids are also unique."""

    def __init__(self, door: Lifecycle) -> None:
        self._door = door
        self._rows: dict[tuple[str, str], DeliveryRow] = {}

    def queue(self, rows: Iterable[DeliveryRow]) -> None:
        """Queue deliveries, except those whose channel already has one with the same key."""
        for row in rows:
            self._rows.setdefault((row.channel, row.key), row)

    async def claim(self, channel: str, holder: str, *, now: str, until: str, limit: int) -> Sequence[DeliveryRow]:
        """Lease a channel's due deliveries to ``holder`` until ``until``, and return them."""
        self._door.check()
        due = [
            row for row in self._rows.values() if row.channel == channel and row.state == "queued" and row.due_at <= now
        ]
        batch = sorted(due, key=lambda row: (row.due_at, row.id))[:limit]
        claimed = [replace(row, holder=holder, due_at=until, attempts=row.attempts + 1) for row in batch]
        self._rows.update({(row.channel, row.key): row for row in claimed})
        return claimed

    async def settle(self, row: DeliveryRow) -> bool:
        """Store the outcome of a claimed delivery's attempt, and release the claim."""
        self._door.check()
        current = self._rows.get((row.channel, row.key))
        if current is None or (current.state, current.holder, current.attempts) != ("queued", row.holder, row.attempts):
            return False
        self._rows[row.channel, row.key] = replace(row, holder="")
        return True

    async def find(self, channel: str, key: str) -> DeliveryRow | None:
        """Return a channel's delivery of an event, or ``None``."""
        self._door.check()
        return self._rows.get((channel, key))

    async def get(self, org: str | None, id: str) -> DeliveryRow | None:
        """Return a delivery of an org, or ``None``."""
        self._door.check()
        return next((row for row in self._rows.values() if (row.org, row.id) == (org, id)), None)

    async def list(self, query: DeliveryQuery) -> Page[DeliveryRow]:
        """Return deliveries, newest first."""
        self._door.check()
        names = ("state", "channel", "approval")
        filters = {name: value for name in names if (value := getattr(query, name)) is not None}
        matching = [
            row
            for row in sorted(self._rows.values(), key=lambda row: row.id, reverse=True)
            if row.org == query.org
            and (query.before is None or row.id < query.before)
            and all(getattr(row, name) == value for name, value in filters.items())
        ]
        items, has_more = page_of(matching, query.limit, query.max_bytes)
        return Page(items, items[-1].id if has_more else None)

    async def retry(self, org: str | None, id: str, *, now: str, act: Entry | None = None) -> bool:
        """Requeue an org's failed delivery, and return whether it had failed."""
        row = await self.get(org, id)
        if row is None or row.state != "failed":
            return False
        self._door.record(act)
        self._rows[row.channel, row.key] = replace(row, state="queued", attempts=0, due_at=now, ended_at=None)
        return True

    async def sweep(self, *, before: str) -> None:
        """Delete the deliveries created before ``before``, in any state."""
        self._door.check()
        self._rows = {key: row for key, row in self._rows.items() if row.created_at >= before}


class MemoryPeople:
    """The people, by org, workspace and user."""

    def __init__(self, door: Lifecycle) -> None:
        self._door = door
        self._rows: dict[tuple[str | None, str, str], PersonRow] = {}

    async def add(self, row: PersonRow, *, act: Entry | None = None) -> bool:
        """Store a new person, unless the org already has that workspace user; return whether it was stored."""
        self._door.check()
        if (row.org, row.team, row.user) in self._rows:
            return False
        self._door.record(act)
        self._rows[row.org, row.team, row.user] = row
        return True

    async def find(self, team: str, user: str) -> Sequence[PersonRow]:
        """Return the persons of a workspace user, one per org, oldest first."""
        self._door.check()
        rows = [row for row in self._rows.values() if (row.team, row.user) == (team, user)]
        return sorted(rows, key=lambda row: row.id)

    async def get(self, org: str | None, id: str) -> PersonRow | None:
        """Return a person of an org, or ``None``."""
        self._door.check()
        return next((row for row in self._rows.values() if (row.org, row.id) == (org, id)), None)

    async def list(self, query: PersonQuery) -> Page[PersonRow]:
        """Return people, newest first."""
        self._door.check()
        matching = [
            row
            for row in sorted(self._rows.values(), key=lambda row: row.id, reverse=True)
            if row.org == query.org and (query.before is None or row.id < query.before)
        ]
        items, has_more = page_of(matching, query.limit, query.max_bytes)
        return Page(items, items[-1].id if has_more else None)

    async def remove(self, org: str | None, id: str, *, act: Entry | None = None) -> bool:
        """Delete a person of an org, and return whether there was one."""
        row = await self.get(org, id)
        if row is None:
            return False
        self._door.record(act)
        del self._rows[row.org, row.team, row.user]
        return True
