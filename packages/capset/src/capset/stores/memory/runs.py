"""Runs and workers in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace

from capset.definitions.governance.approvals import ApprovalRow
from capset.stores.base import Page, RunQuery, RunRow, WorkerRow
from capset.stores.base.runs import STATE_AFTER, UNFINISHED, RunsFull
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import filters_of, page_by_id
from capset.stores.rows import changed_values, id_taken_error
from capset.stores.texts import missing_session_error, storable


class MemoryRuns:
    """The runs, by id. ``sessions`` has the ids of existing sessions, ``approvals`` the requests by id."""

    def __init__(self, lifecycle: Lifecycle, sessions: AbstractSet[str], approvals: Mapping[str, ApprovalRow]) -> None:
        self._lifecycle = lifecycle
        self._sessions = sessions
        self._approvals = approvals
        self._rows: dict[str, RunRow] = {}

    async def add(self, row: RunRow, *, max_unfinished: int | None = None) -> None:
        self._lifecycle.check()
        if row.session not in self._sessions:
            raise missing_session_error("run")
        if row.id in self._rows:
            raise id_taken_error("a run", row.id)
        if (
            max_unfinished is not None
            and sum(
                other.org == row.org and other.state in UNFINISHED and other.queue is not None
                for other in self._rows.values()
            )
            >= max_unfinished
        ):
            raise RunsFull
        self._rows[row.id] = replace(row, content=storable(row.content, "the message"))

    async def get(self, id: str) -> RunRow | None:
        self._lifecycle.check()
        return self._rows.get(id)

    async def list(self, query: RunQuery) -> Page[RunRow]:
        self._lifecycle.check()
        filters = filters_of(query, ("principal", "principal_kind", "state", "queue", "session", "agent"))
        if query.principal_kind is not None:
            filters["on_behalf_of"] = query.on_behalf_of
        rows = [row for row in self._rows.values() if query.since is None or row.id >= query.since]
        return page_by_id(rows, query, {"org": query.org, **filters})

    async def due(self, queue: str, *, now: str, limit: int = 100) -> Sequence[RunRow]:
        self._lifecycle.check()
        due = [
            (row.due_at, row.id, row)
            for row in self._rows.values()
            if row.due_at is not None and row.queue == queue and row.state in ("queued", "running")
        ]
        return [row for at, _, row in sorted(due) if at <= now][:limit]

    async def decided(self, queues: Sequence[str], *, now: str, limit: int = 100) -> Sequence[RunRow]:
        self._lifecycle.check()
        waiting = [row for row in self._rows.values() if row.state == "waiting" and row.kind == "call"]
        matching = [row for row in waiting if row.queue in queues and not self._is_open(row, now)]
        return sorted(matching, key=lambda row: row.id)[:limit]

    def _is_open(self, row: RunRow, now: str) -> bool:
        request = None if row.approval is None else self._approvals.get(row.approval)
        return (
            request is not None and request.org == row.org and request.status == "pending" and request.expires_at > now
        )

    async def change(self, previous: RunRow, then: RunRow) -> bool:
        self._lifecycle.check()
        current = self._rows.get(previous.id)
        if current is None or (current.state, current.attempts) != (previous.state, previous.attempts):
            return False
        self._rows[previous.id] = replace(current, **changed_values(asdict(previous), asdict(then)))
        return True

    def update_state(self, id: str, event: str, data: str, now: str, usage: str | None) -> None:
        """Update the state and the usage of the run with the id of a turn, if there is one, after an event."""
        state, row = STATE_AFTER.get(event), self._rows.get(id)
        if row is None or state is None:
            return
        if state == "running":
            due = row.due_at if row.queue is None or row.state in ("queued", "running") else now
            begun = row.begun_at or now
            self._rows[id] = replace(row, state=state, due_at=due, begun_at=begun, ended_at=None, outcome=None)
        elif state == "waiting":
            self._rows[id] = replace(row, state=state, due_at=None, attempts=row.attempts + 1, usage=usage or row.usage)
        else:
            ended = replace(row, state=state, due_at=None, ended_at=now, outcome=data)
            self._rows[id] = replace(ended, usage=usage or row.usage)

    def is_queued(self, id: str) -> bool:
        """Return whether a run exists and has not begun yet."""
        return id in self._rows and self._rows[id].state == "queued"

    def drop(self, session: str) -> None:
        """Forget the runs of a deleted session."""
        self._rows = {row.id: row for row in self._rows.values() if row.session != session}


class MemoryWorkers:
    """The workers, by id."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._rows: dict[str, WorkerRow] = {}

    async def renew(self, row: WorkerRow) -> None:
        self._lifecycle.check()
        self._rows[row.id] = row

    async def list(self) -> Sequence[WorkerRow]:
        self._lifecycle.check()
        return sorted(self._rows.values(), key=lambda row: row.id)

    async def take(self, previous: WorkerRow, *, until: str) -> bool:
        self._lifecycle.check()
        if (current := self._rows.get(previous.id)) is None or current.until != previous.until:
            return False
        self._rows[previous.id] = replace(current, until=until)
        return True

    async def remove(self, id: str) -> None:
        self._lifecycle.check()
        self._rows.pop(id, None)
