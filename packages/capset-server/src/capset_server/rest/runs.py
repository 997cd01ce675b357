"""``/v1/runs``: turns of agents, and what is queued for workers (spec 5, P99; spec 10, D10).

A caller sees its own runs, and with the scope ``capset:observe`` all of its organisation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request, Response
from pydantic_core import from_json, to_json

from capset.errors import CapsetError, StoreError
from capset.stores.base import RunQuery, RunState
from capset.wire.runs import (
    QueueName,
    RunInput,
    RunPageShape,
    RunShape,
    ScheduleShape,
    Whose,
    run_page_shape,
    run_shape,
)
from capset.wire.shapes import Moment
from capset.wire.traces import RunTraceShape
from capset_server.auth.callers import Caller
from capset_server.followers import follow_run
from capset_server.http.idempotency import Idempotency
from capset_server.http.request_context import request_context
from capset_server.rest.calls import IdempotencyKey
from capset_server.rest.routing import (
    Asked,
    CallsSome,
    Id,
    Observes,
    ObservesTurns,
    Paged,
    Served,
    StrictRoute,
    problems,
)
from capset_server.rest.turns import EVENTS, Events, LastEventId, credential_of, event_number
from capset_server.runs.observation import (
    check_whose,
    event_shape_for,
    find_followable,
    first_id,
    has_events_after,
    read_run,
    record_reading,
    shape_for,
)
from capset_server.runs.submission import cancel_run, content_of_call, described, submit
from capset_server.runs.traces import trace_run
from capset_server.service import Service

router = APIRouter(prefix="/runs", tags=["runs"], route_class=StrictRoute)
Made = TypeVar("Made", RunShape, ScheduleShape)


_Text = Annotated[str | None, Query(min_length=1, max_length=200)]


class RunFilter(Paged):
    """Runs that match all given filters: the caller's own, or with ``whose=all`` those of its organisation."""

    whose: Whose = "own"
    principal: Annotated[_Text, Query(description="Its id alone: `ada`, not `user:ada`; with `whose=all`")] = None
    session_id: _Text = None
    agent: Annotated[_Text, Query(description="The name of the agent")] = None
    state: RunState | None = None
    queue: Annotated[QueueName | None, Query()] = None
    since: Moment = None
    until: Moment = None


class FollowedRun(Asked):
    """Whether to wait for future events."""

    follow: Annotated[bool, Query(description="`false` ends the response after the existing events")] = True


@router.post("", status_code=202, responses=problems(400, 404, 409, 413, 415, 422), operation_id="create_run")
async def create_run(
    service: Served,
    caller: CallsSome,
    body: RunInput,
    request: Request,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> RunShape:
    """Queue a turn of an agent, or a call of a tool, for a worker. It does not depend on this client or this server.

    It requires an API key, since a worker cannot present a caller's token again.
    """
    await check_may_queue(service, caller, body)
    described(service, caller)  # first, so that a refused run creates no session

    async def queue() -> RunShape:
        if body.session_id is not None:
            session = await service.session_row(caller, body.session_id)
        else:
            session = await service.new_session(caller, str(body.agent_id))
        row = await submit(
            service,
            caller,
            session,
            "turn" if body.tool is None else "call",
            body.content if body.tool is None else content_of_call(body.tool, body.arguments or {}),
            queue=body.queue,
            correlation=request_context(request.scope).correlation,
        )
        return run_shape(row)

    return await made_once(service, caller, request, response, idempotency_key, queue, noun="runs", shape=RunShape)


async def check_may_queue(service: Service, caller: Caller, run: RunInput) -> None:
    """Raise ``PermissionDenied`` unless the caller may queue a turn, or calls of the run's tool."""
    if run.tool is None:
        caller.check("capset:call")
    else:
        agent_id = None if run.agent_id is None else str(run.agent_id)
        await service.check_tool(caller, run.tool, session=run.session_id, agent_id=agent_id)


async def made_once(
    service: Service,
    caller: Caller,
    request: Request,
    response: Response,
    key: str | None,
    make: Callable[[], Awaitable[Made]],
    *,
    noun: str,
    shape: type[Made],
) -> Made:
    """Return what a request creates, or has created before under its key, and set ``Location``."""
    idempotency = None
    if key is not None:
        # Not by session: each run of an agent has a new one.
        scope = hashlib.sha256(f"{noun}\0{caller.identity}".encode(errors="replace")).hexdigest()
        idempotency = Idempotency(service, caller, scope, key, await request.body())
    stored_reply = None if idempotency is None else await idempotency.begin()
    if stored_reply is not None:
        created = shape.model_validate(from_json(stored_reply[1]))
        response.headers["Idempotent-Replayed"] = "true"
    else:
        try:
            created = await make()
        except CapsetError as error:
            if idempotency is not None and (error.retryable or not isinstance(error, StoreError)):
                await idempotency.release()
            raise
        if idempotency is not None:
            await idempotency.store_reply(201, to_json(created.plain()))
    response.headers["Location"] = f"{request.scope['root_path']}/v1/{noun}/{created.id}"
    return created


@router.get("", responses=problems(422), operation_id="list_runs")
async def list_runs(service: Served, caller: Observes, params: Annotated[RunFilter, Query()]) -> RunPageShape:
    """List runs, newest first: the caller's own, or, with the scope ``capset:observe``, all of its organisation.

    Without ``whose=all``, each run has its outcome.
    """
    check_whose(caller, params.whose, params.principal)
    principal = caller.principal
    is_own = params.whose == "own"
    query = RunQuery(
        principal.org,
        principal.id if is_own else params.principal,
        principal.kind if is_own else None,
        state=params.state,
        queue=params.queue,
        session=params.session_id,
        agent=params.agent,
        on_behalf_of=principal.on_behalf_of if is_own else None,
        since=None if params.since is None else first_id(params.since),
        limit=params.limit,
        before=_before(params),
    )
    return await run_page_shape(service.kernel.store.runs.list, query, with_outcomes=is_own)


def _before(params: RunFilter) -> str | None:
    """Return the id that all runs of a page precede: the cursor, or that of the time ``until``."""
    ends = [params.cursor, None if params.until is None else first_id(params.until)]
    return min((end for end in ends if end is not None), default=None)


@router.get("/{id}", responses=problems(404, 422), operation_id="get_run")
async def get_run(service: Served, caller: Observes, id: Id) -> RunShape:
    """Return one run, with its state and outcome.

    Reading that of another principal is on record; its outcome is masked and cut.
    """
    return shape_for(service, caller, await read_run(service, caller, id, part="outcome"))


@router.get("/{id}/trace", responses=problems(404, 422), operation_id="get_run_trace")
async def get_run_trace(service: Served, caller: ObservesTurns, id: Id) -> RunTraceShape:
    """Return one run as a tree: its steps with the calls of models and tools, decisions, approvals, and inner agents.

    Arguments are those on record; texts and results are masked like these, and cut. Reading the trace of another
    principal's run is on record. A run that goes on shows what it has done so far.
    """
    return await trace_run(service, await read_run(service, caller, id, part="trace"))


@router.get(
    "/{id}/events",
    operation_id="list_run_events",
    response_class=Response,  # without a media type in FastAPI's document
    responses={
        200: {
            "description": "The events of the run's turn, as `/v1/sessions/{id}/events` sends them, up to its end",
            "content": EVENTS,
        },
        204: {"description": "The run has ended, and has no events after `Last-Event-ID`: browsers stop reconnecting"},
        **problems(400, 404, 422),
    },
)
async def list_run_events(
    service: Served,
    caller: ObservesTurns,
    id: Id,
    query: Annotated[FollowedRun, Query()],
    request: Request,
    last_event_id: LastEventId = None,
) -> Response:
    """Stream the events of a run that is a turn: past ones first, then new ones until its end.

    For a queued run, it waits until the run begins. Reading the events of another principal's run is on record; they
    are masked and cut.
    """
    row = await find_followable(service, caller, id)
    after = 0 if last_event_id is None else event_number(last_event_id)
    if last_event_id is not None and not await has_events_after(service, row, after):
        return Response(status_code=204)
    await record_reading(service, caller, row, part="events")
    leave = service.turns.followers.join(caller.principal) if query.follow else None
    credential = credential_of(service, caller, request)
    rows = follow_run(service.kernel, service.turns.bell, row, after, waits=query.follow, credential=credential)
    return Events(service, rows, shape=event_shape_for(service, caller, row), leave=leave)


@router.post("/{id}/cancel", responses=problems(404, 409, 422), operation_id="cancel_run")
async def cancel(service: Served, caller: CallsSome, id: Id) -> RunShape:
    """Cancel a run, and return it. A run that has ended stays as it is; a call that has begun continues (409)."""
    return run_shape(await cancel_run(service, caller, id))
