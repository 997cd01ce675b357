"""The protocols of runs, which are turns of agents and queued calls, and of workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from capset.stores.base.pages import Page, Query

RunKind = Literal["turn", "call"]
"""A turn of an agent, or one call of a tool."""

RunState = Literal["queued", "running", "waiting", "succeeded", "failed", "cancelled"]
"""A run is ``waiting`` for approvals; the last three states are final."""

UNFINISHED: Final[tuple[RunState, ...]] = ("queued", "running", "waiting")
"""The states of runs that have not ended."""

STATE_AFTER: Final[Mapping[str, RunState]] = {
    "turn.started": "running",
    "turn.resumed": "running",
    "turn.retried": "running",
    "turn.suspended": "waiting",
    "turn.ended": "succeeded",
    "turn.failed": "failed",
    "turn.cancelled": "cancelled",
}
"""The state of a run after an event of its turn. A store updates it in the transaction of the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run: a turn of an agent, or a queued call. A turn has the id of its run.

    A turn that runs where it was requested was never queued: it has no ``queue``, is never due, and its message is only
    in the conversation. ``usage`` is what a turn had used when it last stopped, in all attempts, as JSON text.

    ``caller`` and ``content`` are JSON texts: the former identifies the caller, the latter is the message, or the tool
    with its arguments. From ``due_at`` on, the run is to be passed to the engine, again if the engine already has it;
    it is ``None`` while the run waits, and once it has ended. ``attempts`` counts how often the engine dropped the run
    before its end. ``outcome`` is the data of the turn's last event, or the result of the call, as JSON text;
    ``approval`` is the request that a call waits for. Times are ISO 8601 UTC with microseconds.
    """

    id: str
    org: str | None
    principal: str
    principal_kind: str
    kind: RunKind
    session: str
    agent: str
    correlation: str
    queue: str | None = None
    on_behalf_of: str | None = None
    caller: str = "null"
    content: str = "null"
    created_at: str
    due_at: str | None = None
    state: RunState = "queued"
    attempts: int = 0
    begun_at: str | None = None
    ended_at: str | None = None
    outcome: str | None = None
    approval: str | None = None
    usage: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker, alive ``until`` a time that it renews; ``queues`` are the ones that it serves."""

    id: str
    queues: tuple[str, ...]
    started_at: str
    until: str


@dataclass(frozen=True, slots=True)
class RunQuery(Query):
    """A query for the runs of one org that match every other field that is not ``None``, newest first."""

    org: str | None
    principal: str | None = None
    principal_kind: str | None = None
    state: RunState | None = None
    queue: str | None = None
    session: str | None = None
    agent: str | None = None
    on_behalf_of: str | None = None
    """Whom the principal acts for, with ``principal_kind``: ``None`` means runs in which it acts for itself.

    Without ``principal_kind``, runs on behalf of anyone match.
    """
    since: str | None = None
    """Only runs whose id is this one or greater: ids begin with their time."""


class RunsFull(Exception):
    """Raised for a new run of an org that has the maximum number of unfinished runs in queues."""


class RunStore(Protocol):
    """The runs. They belong to their sessions and are deleted with them.

    ``EventStore`` updates the states of runs that are turns, by ``STATE_AFTER``. With a final state, it stores the data
    of the event as the outcome. The engine drops a waiting run, and gets it again when the run continues.
    """

    async def add(self, row: RunRow, *, max_unfinished: int | None = None) -> None:
        """Store a new run. Raises ``StateError`` (404) for a missing session.

        Raises ``RunsFull`` if its org has ``max_unfinished`` unfinished ones in queues, ``StoreError`` if its id is
        taken.
        """
        ...

    async def get(self, id: str) -> RunRow | None:
        """Return a run, or ``None``."""
        ...

    async def list(self, query: RunQuery) -> Page[RunRow]:
        """Return runs, newest first."""
        ...

    async def due(self, queue: str, *, now: str, limit: int = 100) -> Sequence[RunRow]:
        """Return the queued and running runs of a queue that are to be passed to the engine, the longest due first."""
        ...

    async def decided(self, queues: Sequence[str], *, now: str, limit: int = 100) -> Sequence[RunRow]:
        """Return calls of queues that wait for a request of their org that is no longer open, oldest first.

        Such a request is not ``pending``, expires at ``now`` or before, or no longer exists.
        """
        ...

    async def change(self, previous: RunRow, then: RunRow) -> bool:
        """Store what changed from ``previous`` to ``then``, if the state and attempts are still those of ``previous``.

        Returns whether they were.
        """
        ...


class WorkerStore(Protocol):
    """The workers that are alive, and dead ones that were not removed yet."""

    async def renew(self, row: WorkerRow) -> None:
        """Store a worker, or extend the time until which it is alive."""
        ...

    async def list(self) -> Sequence[WorkerRow]:
        """Return all workers, ordered by id."""
        ...

    async def take(self, previous: WorkerRow, *, until: str) -> bool:
        """Set a worker's ``until`` if it is still that of ``previous``; return whether it was.

        So only one of several workers takes over the runs of a dead one; if that worker dies too, another does.
        """
        ...

    async def remove(self, id: str) -> None:
        """Delete a worker."""
        ...
