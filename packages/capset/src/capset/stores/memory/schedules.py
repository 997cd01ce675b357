"""The schedules in memory."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace

from capset.errors import StoreError
from capset.stores.base import Entry, Page, RunRow, ScheduleQuery, ScheduleRow
from capset.stores.base.schedules import SchedulesFull
from capset.stores.memory.audit import MemoryAudit
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.memory.runs import MemoryRuns
from capset.stores.pages import page_of
from capset.stores.texts import gone, storable


class MemorySchedules:
    """The schedules, by id. ``sessions`` has the ids of existing sessions."""

    def __init__(self, door: Lifecycle, sessions: AbstractSet[str], runs: MemoryRuns, audit: MemoryAudit) -> None:
        self._door = door
        self._sessions = sessions
        self._runs = runs
        self._audit = audit
        self._rows: dict[str, ScheduleRow] = {}

    async def add(self, row: ScheduleRow, *, most: int | None = None, act: Entry | None = None) -> None:
        """Store a new schedule."""
        self._door.check()
        if row.session is not None and row.session not in self._sessions:
            raise gone("schedule")
        if row.id in self._rows:
            raise StoreError(f"there is a schedule {row.id!r} already")
        if most is not None and sum(other.org == row.org for other in self._rows.values()) >= most:
            raise SchedulesFull
        content = storable(row.content, "the message")
        if act is not None:
            await self._audit.commit(act)
        self._rows[row.id] = replace(row, content=content)

    async def get(self, id: str) -> ScheduleRow | None:
        """Return a schedule, or ``None``."""
        self._door.check()
        return self._rows.get(id)

    async def list(self, query: ScheduleQuery) -> Page[ScheduleRow]:
        """Return schedules, newest first."""
        self._door.check()
        owner = (query.org, query.principal, query.principal_kind)
        matching = [
            row
            for row in sorted(self._rows.values(), key=lambda row: row.id, reverse=True)
            if (row.org, row.principal, row.principal_kind) == owner and (query.before is None or row.id < query.before)
        ]
        items, has_more = page_of(matching, query.limit, query.max_bytes)
        return Page(items, items[-1].id if has_more else None)

    async def remove(self, id: str, *, act: Entry | None = None) -> bool:
        """Delete a schedule, and return whether there was one."""
        self._door.check()
        if id not in self._rows:
            return False
        if act is not None:
            await self._audit.commit(act)
        return self._rows.pop(id, None) is not None

    async def due(self, queue: str, *, now: str, limit: int = 100) -> Sequence[ScheduleRow]:
        """Return a queue's due schedules, longest due first, but those with a problem last."""
        self._door.check()
        due = [row for row in self._rows.values() if row.queue == queue and row.next_at and row.next_at <= now]
        return sorted(due, key=lambda row: (row.problem is not None, row.next_at, row.id))[:limit]

    async def change(
        self,
        previous: ScheduleRow,
        then: ScheduleRow,
        *,
        run: RunRow | None = None,
        most: int | None = None,
        act: Entry | None = None,
    ) -> bool:
        """Store the fields of ``then`` that differ from ``previous``, if the schedule's next time is unchanged."""
        self._door.check()
        current = self._rows.get(previous.id)
        if current is None or current.next_at != previous.next_at:
            return False
        if run is not None:
            await self._runs.add(run, most=most)
        if act is not None:
            await self._audit.commit(act)
        before, after = asdict(previous), asdict(then)
        self._rows[previous.id] = replace(
            current, **{name: value for name, value in after.items() if value != before[name]}
        )
        return True

    def drop(self, session: str) -> None:
        """Forget the schedules of a deleted session."""
        self._rows = {row.id: row for row in self._rows.values() if row.session != session}
