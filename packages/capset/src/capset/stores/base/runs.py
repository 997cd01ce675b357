"""The protocols of runs, which are queued for workers, and of the workers themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from capset.stores.base.pages import Page, Query

RunKind = Literal["turn", "call"]
"""A turn of an agent, or one call of a tool."""

RunState = Literal["queued", "running", "waiting", "succeeded", "failed", "cancelled"]
"""``waiting`` is for approvals; the last three are final."""

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
"""The state of a run after an event of its turn: a store changes it in the transaction of the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run. The turn of a run has its id.

    ``caller`` and ``content`` are JSON texts: who is known again by the former, and the message, or the tool with its
    arguments. From ``due_at`` on it is to be handed to the engine, again if that has it already; it is ``None`` while
    the run waits, and once it has ended. ``attempts`` counts how often the engine let go of it before its end.
    ``outcome`` is the data of the turn's last event, or the result of the call, as JSON text; ``approval`` is the
    request that a call waits for. Times are ISO 8601 UTC with microseconds.
    """

    id: str
    org: str | None
    principal: str
    principal_kind: str
    kind: RunKind
    queue: str
    session: str
    agent: str
    caller: str
    content: str
    correlation: str
    created_at: str
    due_at: str | None
    state: RunState = "queued"
    attempts: int = 0
    begun_at: str | None = None
    ended_at: str | None = None
    outcome: str | None = None
    approval: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker that is alive ``until`` a time, unless it renews that; ``queues`` are those that it works on."""

    id: str
    queues: tuple[str, ...]
    started_at: str
    until: str


@dataclass(frozen=True, slots=True)
class RunQuery(Query):
    """A query for the runs of one principal that equal every other field that is not ``None``, newest first."""

    org: str | None
    principal: str
    principal_kind: str = "user"
    state: RunState | None = None
    queue: str | None = None


class RunsFull(Exception):
    """Raised for a new run of an org that has as many unfinished ones as it may have."""


class RunStore(Protocol):
    """The runs. They belong to their sessions and are deleted with them.

    ``EventStore`` changes the states of those that are turns, by ``STATE_AFTER``. With a final state it stores the data
    of the event as their outcome; the engine has let go of one that waits, and gets it again when it goes on.
    """

    async def add(self, row: RunRow, *, most: int | None = None) -> None:
        """Store a new run. Raises ``StateError`` (404) for a missing session.

        Raises ``RunsFull`` if its org has ``most`` unfinished ones, ``StoreError`` if its id is taken.
        """
        ...

    async def get(self, id: str) -> RunRow | None:
        """Return a run, or ``None``."""
        ...

    async def list(self, query: RunQuery) -> Page[RunRow]:
        """Return runs, newest first."""
        ...

    async def due(self, queue: str, *, now: str, limit: int = 100) -> Sequence[RunRow]:
        """Return the queued and running runs of a queue that are to be handed to the engine, the longest due first."""
        ...

    async def decided(self, queues: Sequence[str], *, now: str, limit: int = 100) -> Sequence[RunRow]:
        """Return calls of queues that wait for a request of their org's that is not open any more, the oldest first.

        That is one that is not ``pending``, that expires at ``now`` or before, or that is gone.
        """
        ...

    async def change(self, previous: RunRow, then: RunRow) -> bool:
        """Store what differs between two forms of a run, if its state and attempts are as ``previous``.

        Returns whether they were.
        """
        ...


class WorkerStore(Protocol):
    """The workers that are alive, and those that died since."""

    async def renew(self, row: WorkerRow) -> None:
        """Store a worker, or until when it is alive."""
        ...

    async def list(self) -> Sequence[WorkerRow]:
        """Return every worker, in the order of their ids."""
        ...

    async def take(self, previous: WorkerRow, *, until: str) -> bool:
        """Change until when a worker is alive if that is as ``previous``; return whether it was.

        So one of several finds a dead one's runs; if it dies, too, another does.
        """
        ...

    async def remove(self, id: str) -> None:
        """Delete a worker."""
        ...
