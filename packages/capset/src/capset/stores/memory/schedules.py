"""The schedules in memory."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace

from capset.stores.base import Entry, Page, RunRow, ScheduleQuery, ScheduleRow
from capset.stores.base.schedules import SchedulesFull
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.memory.runs import MemoryRuns
from capset.stores.pages import page_by_id
from capset.stores.rows import changed_values, id_taken_error
from capset.stores.texts import missing_session_error, storable


class MemorySchedules:
    """The schedules, by id. ``sessions`` has the ids of existing sessions."""

    def __init__(self, lifecycle: Lifecycle, sessions: AbstractSet[str], runs: MemoryRuns) -> None:
        self._lifecycle = lifecycle
        self._sessions = sessions
        self._runs = runs
        self._rows: dict[str, ScheduleRow] = {}

    async def add(self, row: ScheduleRow, *, max_schedules: int | None = None, act: Entry | None = None) -> None:
        self._lifecycle.check()
        if row.session is not None and row.session not in self._sessions:
            raise missing_session_error("schedule")
        if row.id in self._rows:
            raise id_taken_error("a schedule", row.id)
        if max_schedules is not None and sum(other.org == row.org for other in self._rows.values()) >= max_schedules:
            raise SchedulesFull
        content = storable(row.content, "the message")
        self._lifecycle.record(act)
        self._rows[row.id] = replace(row, content=content)

    async def get(self, id: str) -> ScheduleRow | None:
        self._lifecycle.check()
        return self._rows.get(id)

    async def list(self, query: ScheduleQuery) -> Page[ScheduleRow]:
        self._lifecycle.check()
        filters = {name: getattr(query, name) for name in ("org", "principal", "principal_kind")}
        return page_by_id(self._rows.values(), query, filters)

    async def remove(self, id: str, *, act: Entry | None = None) -> bool:
        self._lifecycle.check()
        if id not in self._rows:
            return False
        self._lifecycle.record(act)
        del self._rows[id]
        return True

    async def due(self, queue: str, *, now: str, limit: int = 100) -> Sequence[ScheduleRow]:
        self._lifecycle.check()
        due = [row for row in self._rows.values() if row.queue == queue and row.next_at and row.next_at <= now]
        return sorted(due, key=lambda row: (row.problem is not None, row.next_at, row.id))[:limit]

    async def change(
        self,
        previous: ScheduleRow,
        then: ScheduleRow,
        *,
        run: RunRow | None = None,
        max_unfinished: int | None = None,
        act: Entry | None = None,
    ) -> bool:
        self._lifecycle.check()
        current = self._rows.get(previous.id)
        if current is None or current.next_at != previous.next_at:
            return False
        if run is not None:
            await self._runs.add(run, max_unfinished=max_unfinished)
        self._lifecycle.record(act)
        self._rows[previous.id] = replace(current, **changed_values(asdict(previous), asdict(then)))
        return True

    def drop(self, session: str) -> None:
        """Forget the schedules of a deleted session."""
        self._rows = {row.id: row for row in self._rows.values() if row.session != session}
