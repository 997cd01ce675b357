"""Runs and workers in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace

from capset.definitions.governance.approvals import ApprovalRow
from capset.errors import StoreError
from capset.stores.base import Page, RunQuery, RunRow, WorkerRow
from capset.stores.base.runs import STATE_AFTER, UNFINISHED, RunsFull
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import page_of
from capset.stores.texts import gone, storable


class MemoryRuns:
    """The runs, by id. ``sessions`` has the ids of existing sessions, ``approvals`` the requests by id."""

    def __init__(self, door: Lifecycle, sessions: AbstractSet[str], approvals: Mapping[str, ApprovalRow]) -> None:
        self._door = door
        self._sessions = sessions
        self._approvals = approvals
        self._rows: dict[str, RunRow] = {}

    async def add(self, row: RunRow, *, most: int | None = None) -> None:
        """Store a new run."""
        self._door.check()
        if row.session not in self._sessions:
            raise gone("run")
        if row.id in self._rows:
            raise StoreError(f"there is a run {row.id!r} already")
        if (
            most is not None
            and sum(other.org == row.org and other.state in UNFINISHED for other in self._rows.values()) >= most
        ):
            raise RunsFull
        self._rows[row.id] = replace(row, content=storable(row.content, "the message"))

    async def get(self, id: str) -> RunRow | None:
        """Return a run, or ``None``."""
        self._door.check()
        return self._rows.get(id)

    async def list(self, query: RunQuery) -> Page[RunRow]:
        """Return runs, newest first."""
        self._door.check()
        names = ("principal", "principal_kind", "state", "queue")
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

    async def due(self, queue: str, *, now: str, limit: int = 100) -> Sequence[RunRow]:
        """Return a queue's queued and running runs that are due for the engine, longest due first."""
        self._door.check()
        due = [
            (row.due_at, row.id, row)
            for row in self._rows.values()
            if row.due_at is not None and row.queue == queue and row.state in ("queued", "running")
        ]
        return [row for at, _, row in sorted(due) if at <= now][:limit]

    async def decided(self, queues: Sequence[str], *, now: str, limit: int = 100) -> Sequence[RunRow]:
        """Return the waiting calls in these queues whose approval request is no longer open, oldest first."""
        self._door.check()
        waiting = [row for row in self._rows.values() if row.state == "waiting" and row.kind == "call"]
        matching = [row for row in waiting if row.queue in queues and not self._is_open(row, now)]
        return sorted(matching, key=lambda row: row.id)[:limit]

    def _is_open(self, row: RunRow, now: str) -> bool:
        request = None if row.approval is None else self._approvals.get(row.approval)
        return (
            request is not None and request.org == row.org and request.status == "pending" and request.expires_at > now
        )

    async def change(self, previous: RunRow, then: RunRow) -> bool:
        """Store the fields of ``then`` that differ from ``previous``, if the run's state and attempts are unchanged."""
        self._door.check()
        current = self._rows.get(previous.id)
        if current is None or (current.state, current.attempts) != (previous.state, previous.attempts):
            return False
        before, after = asdict(previous), asdict(then)
        self._rows[previous.id] = replace(
            current, **{name: value for name, value in after.items() if value != before[name]}
        )
        return True

    def follow(self, id: str, event: str, data: str, now: str) -> None:
        """Update the state of the run with the id of a turn, if there is one, after an event of the turn."""
        state, row = STATE_AFTER.get(event), self._rows.get(id)
        if row is None or state is None:
            return
        if state == "running":
            due = row.due_at if row.state in ("queued", "running") else now
            begun = row.begun_at or now
            self._rows[id] = replace(row, state=state, due_at=due, begun_at=begun, ended_at=None, outcome=None)
        elif state == "waiting":
            self._rows[id] = replace(row, state=state, due_at=None, attempts=row.attempts + 1)
        else:
            self._rows[id] = replace(row, state=state, due_at=None, ended_at=now, outcome=data)

    def is_queued(self, id: str) -> bool:
        """Return whether a run exists and has not begun yet."""
        return id in self._rows and self._rows[id].state == "queued"

    def drop(self, session: str) -> None:
        """Forget the runs of a deleted session."""
        self._rows = {row.id: row for row in self._rows.values() if row.session != session}


class MemoryWorkers:
    """The workers, by id."""

    def __init__(self, door: Lifecycle) -> None:
        self._door = door
        self._rows: dict[str, WorkerRow] = {}

    async def renew(self, row: WorkerRow) -> None:
        """Store a worker, or extend its lease."""
        self._door.check()
        self._rows[row.id] = row

    async def list(self) -> Sequence[WorkerRow]:
        """Return all workers, sorted by id."""
        self._door.check()
        return sorted(self._rows.values(), key=lambda row: row.id)

    async def take(self, previous: WorkerRow, *, until: str) -> bool:
        """Extend a worker's lease to ``until`` if it is unchanged since ``previous``; return whether it was."""
        self._door.check()
        if (current := self._rows.get(previous.id)) is None or current.until != previous.until:
            return False
        self._rows[previous.id] = replace(current, until=until)
        return True

    async def remove(self, id: str) -> None:
        """Delete a worker."""
        self._door.check()
        self._rows.pop(id, None)
