"""The protocol of schedules, by which runs are queued again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from capset.stores.base.audit import Entry
from capset.stores.base.pages import Page, Query
from capset.stores.base.runs import RunKind, RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule: what its runs are, and when the next one is due.

    ``cron`` has five fields, read in the time zone ``timezone``. ``caller`` and ``content`` are JSON texts, as those of
    ``RunRow``. Without a ``session``, each run gets a new one of the ``agent``. ``next_at`` is ``None`` while the
    schedule is paused; ``last_at`` and ``last_run`` are of the newest run, and ``problem`` says why the newest time
    had none. Times are ISO 8601 UTC with microseconds.
    """

    id: str
    org: str | None
    principal: str
    principal_kind: str
    cron: str
    timezone: str
    kind: RunKind
    queue: str
    agent: str
    session: str | None
    caller: str
    content: str
    created_at: str
    next_at: str | None
    last_at: str | None = None
    last_run: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduleQuery(Query):
    """A query for the schedules of one principal, newest first."""

    org: str | None
    principal: str
    principal_kind: str = "user"


class SchedulesFull(Exception):
    """Raised for a new schedule of an org that has as many as it may have."""


class ScheduleStore(Protocol):
    """The schedules. One in a session is deleted with it."""

    async def add(self, row: ScheduleRow, *, most: int | None = None, act: Entry | None = None) -> None:
        """Store a new schedule. Raises ``StateError`` (404) for a missing session.

        Raises ``SchedulesFull`` if its org has ``most`` already, ``StoreError`` if its id is taken.
        """
        ...

    async def get(self, id: str) -> ScheduleRow | None:
        """Return a schedule, or ``None``."""
        ...

    async def list(self, query: ScheduleQuery) -> Page[ScheduleRow]:
        """Return schedules, newest first."""
        ...

    async def remove(self, id: str, *, act: Entry | None = None) -> bool:
        """Delete a schedule, and return whether there was one. Its runs stay."""
        ...

    async def due(self, queue: str, *, now: str, limit: int = 100) -> Sequence[ScheduleRow]:
        """Return the schedules of a queue whose next run is due: the longest due first, those with a problem last.

        Otherwise a page of those that are left to another worker would hold back all others.
        """
        ...

    async def change(
        self,
        previous: ScheduleRow,
        then: ScheduleRow,
        *,
        run: RunRow | None = None,
        most: int | None = None,
        act: Entry | None = None,
    ) -> bool:
        """Store what differs between two forms of a schedule; return whether its next time was that of ``previous``.

        With a ``run``, that is added in the same transaction: of several workers that see a schedule due, one queues
        its run. Raises as ``RunStore.add`` does; then nothing is changed.
        """
        ...
