"""Sessions and stored replies in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from capset.errors import StoreError
from capset.stores.base import MOVED, Entry, Page, ReplyRow, SessionQuery, SessionRow
from capset.stores.base.replies import KeysFull
from capset.stores.memory.files import MemoryFiles
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import page_of


class Dropping(Protocol):
    """A part of the store with data that belongs to sessions."""

    def drop(self, session: str) -> None:
        """Forget the data of a deleted session."""
        ...


class MemorySessions:
    """The sessions, by id."""

    def __init__(
        self,
        door: Lifecycle,
        files: MemoryFiles,
        owning: Iterable[Dropping],
    ) -> None:
        """``owning`` has the parts, besides the files, whose data belongs to sessions."""
        self._door = door
        self._files = files
        self._owning = (files, *owning)
        self._rows: dict[str, SessionRow] = {}
        self._doors: dict[str, str] = {}

    def all(self) -> Iterable[SessionRow]:
        """Return the sessions of every organisation."""
        self._door.check()
        return self._rows.values()

    async def create(self, row: SessionRow) -> None:
        """Store a new session. Raises ``StoreError`` if its id is taken."""
        self._door.check()
        if row.id in self._rows or (row.door is not None and row.door in self._doors):
            raise StoreError(f"there is a session {row.id!r} already")
        self._rows[row.id] = row
        self._files.sessions.add(row.id)
        if row.door is not None:
            self._doors[row.door] = row.id

    async def ensure(self, row: SessionRow) -> SessionRow:
        """Store a new session, or update the one with the same ``door``."""
        self._door.check()
        if row.door is None or (existing_id := self._doors.get(row.door)) is None:
            await self.create(row)
            return row
        updated = replace(row, id=existing_id, created_at=self._rows[existing_id].created_at)
        self._rows[existing_id] = updated
        return updated

    async def move(self, row: SessionRow, *, expected: int | None, act: Entry | None = None) -> bool:
        """Move a session to another version of its agent; return whether it had the expected version."""
        self._door.check()
        current = self._rows.get(row.id)
        if current is None or expected not in (None, current.agent_version):
            return False
        self._door.record(act)
        self._rows[row.id] = replace(current, **{name: getattr(row, name) for name in MOVED})
        return True

    async def get(self, id: str) -> SessionRow | None:
        """Return a session, or ``None``."""
        self._door.check()
        return self._rows.get(id)

    async def find(self, door: str) -> SessionRow | None:
        """Return the session with this ``door``, or ``None``."""
        self._door.check()
        return self._rows.get(self._doors.get(door, ""))

    async def list(self, query: SessionQuery) -> Page[SessionRow]:
        """Return sessions, newest first."""
        self._door.check()
        names = ("principal", "principal_kind", "agent_id")
        filters = {name: value for name in names if (value := getattr(query, name)) is not None}
        if query.principal is not None:
            filters["on_behalf_of"] = query.on_behalf_of
        matching = [
            row
            for row in sorted(self._rows.values(), key=lambda row: row.id, reverse=True)
            if row.org == query.org
            and (query.before is None or row.id < query.before)
            and all(getattr(row, name) == value for name, value in filters.items())
        ]
        items, has_more = page_of(matching, query.limit, query.max_bytes)
        return Page(items, items[-1].id if has_more else None)

    async def delete(self, id: str, *, act: Entry | None = None) -> bool:
        """Delete a session with all its data, and return whether there was one."""
        self._door.check()
        row = self._rows.get(id)
        if row is not None:
            self._door.record(act)
            del self._rows[id]
            if row.door is not None:
                del self._doors[row.door]
        for part in self._owning:
            part.drop(id)
        return row is not None


class MemoryReplies:
    """The replies, by session and key."""

    def __init__(self, door: Lifecycle) -> None:
        self._door = door
        self._rows: dict[tuple[str, str], ReplyRow] = {}

    async def reserve(self, row: ReplyRow, *, expired: str, most: int | None = None) -> ReplyRow | None:
        """Reserve a request's key and return ``None``, or return the row already stored under it."""
        await self.sweep(expired=expired)
        if (existing := self._rows.get((row.session, row.key))) is not None:
            return existing
        of_org = [other.created_at for other in self._rows.values() if other.org == row.org]
        if most is not None and len(of_org) >= most:
            raise KeysFull(min(of_org))
        self._rows[row.session, row.key] = row
        return None

    async def get(self, session: str, key: str) -> ReplyRow | None:
        """Return the row stored under a key, without reserving the key."""
        self._door.check()
        return self._rows.get((session, key))

    async def fulfil(
        self,
        session: str,
        key: str,
        status: int,
        body: str | None,
        *,
        record: str | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Store the reply to a reserved request; drop the org's oldest bodies if they exceed ``max_bytes`` in total."""
        self._door.check()
        if (row := self._rows.get((session, key))) is None:
            return
        self._rows[session, key] = replace(row, status=status, body=body, record=record)
        if max_bytes is not None:
            self._shed(row.org, max_bytes)

    def _shed(self, org: str | None, remaining: int) -> None:
        of_org = [(at, row) for at, row in self._rows.items() if row.org == org and row.body is not None]
        for at, row in sorted(of_org, key=lambda entry: entry[1].created_at, reverse=True):
            remaining -= len((row.body or "").encode())
            if remaining < 0:
                self._rows[at] = replace(row, body=None)

    async def release(self, session: str, key: str) -> None:
        """Delete the reservation of a failed request, so that it can be retried."""
        self._door.check()
        self._rows.pop((session, key), None)

    async def sweep(self, *, expired: str) -> None:
        """Delete the rows created before ``expired``."""
        self._door.check()
        self._rows = {at: row for at, row in self._rows.items() if row.created_at >= expired}

    def drop(self, session: str) -> None:
        """Forget the replies of a deleted session."""
        for key in [key for key in self._rows if key[0] == session]:
            del self._rows[key]
