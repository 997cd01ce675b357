"""``/v1/schedules``: recurring runs (spec 10, D17)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from capset.stores.base import ScheduleQuery
from capset.wire.runs import ScheduleInput, SchedulePageShape, ScheduleShape, schedule_page_shape, schedule_shape
from capset_server.rest.calls import IdempotencyKey
from capset_server.rest.routing import CallsSome, Id, Paged, Served, StrictRoute, problems
from capset_server.rest.runs import check_may_queue, made_once
from capset_server.runs.schedules import create_schedule, find_schedule, pause_schedule, remove_schedule
from capset_server.runs.submission import content_of_call

router = APIRouter(prefix="/schedules", tags=["runs"], route_class=StrictRoute)


@router.post("", status_code=201, responses=problems(400, 404, 409, 413, 415, 422), operation_id="create_schedule")
async def create(
    service: Served,
    caller: CallsSome,
    body: ScheduleInput,
    request: Request,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> ScheduleShape:
    """Create a schedule, which queues a turn of an agent or a call of a tool at each time of a cron expression.

    Without a session, each run gets a new one. It requires an API key, which every run uses.
    """
    await check_may_queue(service, caller, body)

    async def make() -> ScheduleShape:
        session = None if body.session_id is None else await service.session_row(caller, body.session_id)
        if session is None:
            await service.agents.active(caller.principal.org, str(body.agent_id))
        row = await create_schedule(
            service,
            caller,
            "turn" if body.tool is None else "call",
            body.content if body.tool is None else content_of_call(body.tool, body.arguments or {}),
            cron=body.cron,
            timezone=body.timezone,
            queue=body.queue,
            agent=str(body.agent_id) if session is None else session.agent,
            session=session,
        )
        return schedule_shape(row)

    return await made_once(
        service, caller, request, response, idempotency_key, make, noun="schedules", shape=ScheduleShape
    )


@router.get("", responses=problems(422), operation_id="list_schedules")
async def list_schedules(service: Served, caller: CallsSome, params: Annotated[Paged, Query()]) -> SchedulePageShape:
    """List the caller's schedules, newest first."""
    principal = caller.principal
    query = ScheduleQuery(principal.org, principal.id, principal.kind, limit=params.limit, before=params.cursor)
    return await schedule_page_shape(service.kernel.store.schedules.list, query)


@router.get("/{id}", responses=problems(404, 422), operation_id="get_schedule")
async def get_schedule(service: Served, caller: CallsSome, id: Id) -> ScheduleShape:
    """Return one schedule: when its next run is due, its newest run, and any problem with it."""
    return schedule_shape(await find_schedule(service, caller, id))


@router.post("/{id}/pause", responses=problems(404, 409, 422), operation_id="pause_schedule")
async def pause(service: Served, caller: CallsSome, id: Id) -> ScheduleShape:
    """Pause a schedule, and return it. It queues nothing until it is resumed."""
    return schedule_shape(await pause_schedule(service, caller, id, is_paused=True))


@router.post("/{id}/resume", responses=problems(404, 409, 422), operation_id="resume_schedule")
async def resume(service: Served, caller: CallsSome, id: Id) -> ScheduleShape:
    """Resume a paused schedule, and return it. Times that have passed are skipped."""
    return schedule_shape(await pause_schedule(service, caller, id, is_paused=False))


@router.delete("/{id}", status_code=204, responses=problems(404, 422), operation_id="delete_schedule")
async def remove(service: Served, caller: CallsSome, id: Id) -> None:
    """Delete a schedule. Its runs stay: cancel those that should not continue."""
    await remove_schedule(service, caller, id)
