"""The sessions in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from capset.errors import StoreError
from capset.stores.base import MOVED, SessionPage, SessionQuery, SessionRow
from capset.stores.memory.files import MemoryFiles
from capset.stores.memory.lifecycle import Lifecycle


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
        """``owning`` are the parts beside the files whose data belongs to sessions."""
        self._door = door
        self._files = files
        self._owning = (files, *owning)
        self._rows: dict[str, SessionRow] = {}
        self._doors: dict[str, str] = {}

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
        """Store a new session with a ``door``, or update the one that has that door."""
        self._door.check()
        if row.door is None or (there := self._doors.get(row.door)) is None:
            await self.create(row)
            return row
        kept = replace(row, id=there, created_at=self._rows[there].created_at)
        self._rows[there] = kept
        return kept

    async def move(self, row: SessionRow, *, expected: int | None) -> bool:
        """Move a session to another version of its agent; return whether it had the expected one."""
        self._door.check()
        there = self._rows.get(row.id)
        if there is None or expected not in (None, there.agent_version):
            return False
        self._rows[row.id] = replace(there, **{name: getattr(row, name) for name in MOVED})
        return True

    async def get(self, id: str) -> SessionRow | None:
        """Return a session, or ``None``."""
        self._door.check()
        return self._rows.get(id)

    async def list(self, query: SessionQuery) -> SessionPage:
        """Return sessions, newest first."""
        self._door.check()
        names = ("principal", "principal_kind", "agent_id")
        wanted = {name: value for name in names if (value := getattr(query, name)) is not None}
        found = [
            row
            for row in sorted(self._rows.values(), key=lambda row: row.id, reverse=True)
            if row.org == query.org
            and (query.before is None or row.id < query.before)
            and all(getattr(row, name) == value for name, value in wanted.items())
        ]
        items = tuple(found[: query.limit])
        return SessionPage(items, items[-1].id if len(found) > query.limit else None)

    async def delete(self, id: str) -> bool:
        """Delete a session with all its data, and return whether there was one."""
        self._door.check()
        row = self._rows.pop(id, None)
        if row is not None and row.door is not None:
            del self._doors[row.door]
        for part in self._owning:
            part.drop(id)
        return row is not None
