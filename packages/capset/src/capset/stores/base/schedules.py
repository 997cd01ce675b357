"""The protocol of schedules, by which runs are queued repeatedly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from capset.stores.base.audit import Entry
from capset.stores.base.pages import Page, Query
from capset.stores.base.runs import RunKind, RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRow:
    """One schedule: what its runs do, and when the next one is due.

    ``cron`` has five fields, read in the time zone ``timezone``. ``caller`` and ``content`` are JSON texts as in
    ``RunRow``. Without a ``session``, each run gets a new session with the ``agent``. ``next_at`` is ``None`` while the
    schedule is paused. ``last_at`` and ``last_run`` are those of the newest run; ``problem`` says why no run was queued
    the last time. Times are ISO 8601 UTC with microseconds.
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
    """Raised for a new schedule of an org that has the maximum number of schedules."""


class ScheduleStore(Protocol):
    """The schedules. A schedule in a session is deleted with it."""

    async def add(self, row: ScheduleRow, *, max_schedules: int | None = None, act: Entry | None = None) -> None:
        """Store a new schedule. Raises ``StateError`` (404) for a missing session.

        Raises ``SchedulesFull`` if its org already has ``max_schedules``, ``StoreError`` if its id is taken.
        """
        ...

    async def get(self, id: str) -> ScheduleRow | None:
        """Return a schedule, or ``None``."""
        ...

    async def list(self, query: ScheduleQuery) -> Page[ScheduleRow]:
        """Return schedules, newest first."""
        ...

    async def remove(self, id: str, *, act: Entry | None = None) -> bool:
        """Delete a schedule, but not its runs; return whether there was one."""
        ...

    async def due(self, queue: str, *, now: str, limit: int = 100) -> Sequence[ScheduleRow]:
        """Return the schedules of a queue whose next run is due: the longest due first, those with a problem last.

        Otherwise, a page full of schedules that are left to another worker would block all others.
        """
        ...

    async def change(
        self,
        previous: ScheduleRow,
        then: ScheduleRow,
        *,
        run: RunRow | None = None,
        max_unfinished: int | None = None,
        act: Entry | None = None,
    ) -> bool:
        """Store what changed from ``previous`` to ``then``, if the next time is still that of ``previous``.

        Returns whether it was. A ``run`` is added in the same transaction, so only one of several workers that find a
        schedule due queues its run. Raises as ``RunStore.add`` does; then nothing is changed.
        """
        ...
