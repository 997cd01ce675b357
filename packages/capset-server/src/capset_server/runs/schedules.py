"""Schedules: recurring runs, queued at the times of a cron expression (spec 10, D17)."""

from __future__ import annotations

import logging
from collections.abc import Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from pydantic_core import from_json, to_json

from capset.clock import iso_of
from capset.errors import CapsetError, Conflict, Field, InvalidArguments, LimitExceeded, NotFound, StoreError
from capset.stores.base import RunKind, ScheduleRow, SessionRow
from capset.stores.base.runs import UNFINISHED, RunsFull
from capset.stores.base.schedules import SchedulesFull
from capset_agents.hosts import CallerAbsent, WrongProcess
from capset_server.auth.callers import Caller
from capset_server.runs.submission import UNFINISHED_RUNS, described, new_run, too_many

if TYPE_CHECKING:
    from capset_server.service import Service

SCHEDULES: Final = 1_000
"""The maximum number of schedules of an organisation."""
_FIELDS: Final = 5
_TRIES: Final = 20
_log = logging.getLogger("capset.runs")


@cache
def _zones() -> Set[str]:
    """Return the names of time zones, without those that depend on the machine, or stand for none."""
    return available_timezones() - {"localtime", "posixrules", "Factory"}


def next_time(cron: str, timezone: str, after: str) -> str:
    """Return the first time of a cron expression after a time, both ISO 8601 UTC with microseconds.

    Raises ``InvalidArguments`` for an invalid expression or time zone, and for an expression that has no such time.
    Clock changes are treated as in Debian's cron. If an expression has a fixed minute and hour, a time that is skipped
    is due at once, and a time that comes twice is due once. With ``*`` in either, it follows the clock.
    """
    try:
        zone = ZoneInfo(timezone)
        if timezone not in _zones():
            raise KeyError
    except (KeyError, ValueError, OSError):  # an unknown name, a path, or a folder
        raise _refused("timezone", f"expected a name such as Europe/Berlin or UTC, not {timezone!r:.80}") from None
    try:
        if len(cron.split()) != _FIELDS:
            raise CronSimError("Wrong number of fields")
        due_at = next(CronSim(cron, datetime.fromisoformat(after).astimezone(zone)))
    except CronSimError as error:
        message = f"expected minute, hour, day of the month, month and day of the week, as in 0 9 * * 1-5; {error}"
        raise _refused("cron", message) from None
    except StopIteration:
        raise _refused("cron", "expected an expression with a future time; this one has none") from None
    return iso_of(due_at.astimezone(UTC))


def _refused(field: str, expected: str) -> InvalidArguments:
    return InvalidArguments(f"Invalid request: {field}: {expected}", fields=[Field(field, expected)])


async def create_schedule(
    service: Service,
    caller: Caller,
    kind: RunKind,
    content: Any,  # any JSON
    *,
    cron: str,
    timezone: str,
    queue: str,
    agent: str,
    session: SessionRow | None,
) -> ScheduleRow:
    """Store a schedule of a caller, and return it.

    Raises ``InvalidArguments`` as ``next_time`` does, ``PermissionDenied`` for a caller with a token, and
    ``LimitExceeded`` if the organisation has the maximum number of schedules.
    """
    kernel, principal = service.kernel, caller.principal
    now = kernel.now()
    row = ScheduleRow(
        id=kernel.new_id(),
        org=principal.org,
        principal=principal.id,
        principal_kind=principal.kind,
        cron=cron,
        timezone=timezone,
        kind=kind,
        queue=queue,
        agent=agent,
        session=None if session is None else session.id,
        caller=described(service, caller),
        content=to_json(content).decode(),
        created_at=now,
        next_at=next_time(cron, timezone, now),
    )
    about = {"id": row.id, "cron": cron, "timezone": timezone, "kind": kind, "queue": queue, "agent": agent}
    act = kernel.act("schedule.create", about, by=principal, org=principal.org)
    try:
        await kernel.store.schedules.add(row, max_schedules=SCHEDULES, act=act)
    except SchedulesFull:
        raise LimitExceeded(
            f"Rate limit exceeded: this organisation has {SCHEDULES} schedules (schedules). Nothing was stored.",
            hint="delete some",
        ) from None
    return row


async def find_schedule(service: Service, caller: Caller, id: str) -> ScheduleRow:
    """Return a schedule of the caller. Raises ``NotFound``, also for another caller's schedule."""
    row, principal = await service.kernel.store.schedules.get(id), caller.principal
    if row is None or (row.org, row.principal_kind, row.principal) != (principal.org, principal.kind, principal.id):
        raise NotFound(f"there is no schedule {id!r}")
    return row


async def pause_schedule(service: Service, caller: Caller, id: str, *, is_paused: bool) -> ScheduleRow:
    """Pause a schedule, or resume it from now on, and return it. Does nothing if it is so already."""
    kernel, principal = service.kernel, caller.principal
    for _ in range(_TRIES):
        row = await find_schedule(service, caller, id)
        if (row.next_at is None) == is_paused:
            return row
        then = replace(row, next_at=None if is_paused else next_time(row.cron, row.timezone, kernel.now()))
        act = kernel.act("schedule.change", {"id": id, "is_paused": is_paused}, by=principal, org=principal.org)
        if await kernel.store.schedules.change(row, then, act=act):
            return then
    raise Conflict(f"the schedule {id!r} is being changed by others all the time: try again")


async def remove_schedule(service: Service, caller: Caller, id: str) -> None:
    """Delete a schedule of the caller. Its runs stay. Raises ``NotFound``."""
    kernel, principal = service.kernel, caller.principal
    await find_schedule(service, caller, id)
    if not await kernel.store.schedules.remove(
        id, act=kernel.act("schedule.delete", {"id": id}, by=principal, org=principal.org)
    ):
        raise NotFound(f"there is no schedule {id!r}")


async def queue_due(service: Service, queues: Sequence[str]) -> int:
    """Queue the runs that are due by the schedules of ``queues``, and return how many there were.

    Times that passed without a worker get one run together. A time is skipped while the previous run has not ended.
    Raises ``StoreError``.
    """
    kernel, count = service.kernel, 0
    for queue in queues:
        for schedule in await kernel.store.schedules.due(queue, now=kernel.now()):
            count += await _queue_one(service, schedule)
    return count


async def _leave(service: Service, schedule: ScheduleRow) -> None:
    """Leave a due schedule to a worker that knows its caller, and store why it waits."""
    problem = "its caller has no key, and no worker runs with --insecure"
    if schedule.problem != problem:
        _log.warning("the schedule %s waits: %s", schedule.id, problem)
        await service.kernel.store.schedules.change(schedule, replace(schedule, problem=problem))


async def _queue_one(service: Service, schedule: ScheduleRow) -> bool:
    store, now = service.kernel.store, service.kernel.now()
    problem, created_session = None, None
    try:
        then = replace(schedule, next_at=next_time(schedule.cron, schedule.timezone, now), problem=None)
    except InvalidArguments as error:  # a time zone that no longer exists
        await store.schedules.change(schedule, replace(schedule, next_at=None, problem=error.message))
        return False
    try:
        before = None if schedule.last_run is None else await store.runs.get(schedule.last_run)
        if before is not None and before.state in UNFINISHED:
            raise Conflict(f"the run {before.id} has not ended")
        caller = await service.turns.find_caller(from_json(schedule.caller))
        if schedule.session is None:
            session = created_session = await service.new_session(caller, schedule.agent)
        else:
            session = await service.session_row(caller, schedule.session)
        run = new_run(
            service,
            caller,
            session,
            schedule.kind,
            schedule.content,
            queue=schedule.queue,
            correlation=service.kernel.new_id(),
        )
        then = replace(then, last_at=now, last_run=run.id)
        if await store.schedules.change(schedule, then, run=run, max_unfinished=UNFINISHED_RUNS):
            return True
    except RunsFull:
        problem = too_many().message
    except (WrongProcess, CallerAbsent):
        await _leave(service, schedule)
    except StoreError:
        raise
    except CapsetError as error:
        problem = error.message
    except Exception:
        _log.exception("the schedule %s queued no run", schedule.id)
        problem = "queueing its run failed unexpectedly; the log has the details"
    if created_session is not None:
        await store.sessions.delete(created_session.id)  # another worker was faster, or there was no room
    if problem is not None:
        _log.warning("the schedule %s queued no run: %s", schedule.id, problem)
        await store.schedules.change(
            schedule, replace(then, last_at=schedule.last_at, last_run=schedule.last_run, problem=problem)
        )
    return False
