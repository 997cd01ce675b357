"""``/v1/runs``: turns and calls that are queued, and done by workers (spec 10, D10)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from capset.server.http.request_context import request_context
from capset.server.rest.routing import CallsSome, Id, Paged, Served, StrictRoute, problems
from capset.server.runs.submission import cancel_run, content_of_call, described, find_run, submit
from capset.stores.base import RunQuery, RunState
from capset.wire.runs import QueueName, RunInput, RunPageShape, RunShape, run_page_shape, run_shape

router = APIRouter(prefix="/runs", tags=["runs"], route_class=StrictRoute)


class RunFilter(Paged):
    """Only runs that fit everything given."""

    state: RunState | None = None
    queue: Annotated[QueueName | None, Query()] = None


@router.post("", status_code=202, responses=problems(400, 404, 409, 413, 415, 422, 429), operation_id="create_run")
async def create_run(
    service: Served, caller: CallsSome, given: RunInput, request: Request, response: Response
) -> RunShape:
    """Queue a turn of an agent, or a call of a tool, for a worker: it goes on without this client, and this server.

    It needs an API key: a token cannot be shown again by a worker.
    """
    if given.tool is None:
        caller.check("capset:call")
    else:
        caller.check_tool(given.tool)
    described(service, caller)  # first, so that a refused run leaves no session
    if given.session_id is not None:
        session = await service.session_row(caller, given.session_id)
    else:
        session = await service.new_session(caller, str(given.agent_id))
    content = given.content if given.tool is None else content_of_call(given.tool, given.arguments or {})
    row = await submit(
        service,
        caller,
        session,
        "turn" if given.tool is None else "call",
        content,
        queue=given.queue,
        correlation=request_context(request.scope).correlation,
    )
    response.headers["Location"] = f"{request.scope['root_path']}/v1/runs/{row.id}"
    return run_shape(row)


@router.get("", responses=problems(422), operation_id="list_runs")
async def list_runs(service: Served, caller: CallsSome, wanted: Annotated[RunFilter, Query()]) -> RunPageShape:
    """List the caller's runs, newest first."""
    who = caller.principal
    query = RunQuery(
        who.org,
        who.id,
        who.kind,
        state=wanted.state,
        queue=wanted.queue,
        limit=wanted.limit,
        before=wanted.cursor,
    )
    return await run_page_shape(service.kernel.store.runs.list, query)


@router.get("/{id}", responses=problems(404, 422), operation_id="get_run")
async def get_run(service: Served, caller: CallsSome, id: Id) -> RunShape:
    """Return one run: how it stands, and what came of it."""
    return run_shape(await find_run(service, caller, id))


@router.post("/{id}/cancel", responses=problems(404, 409, 422), operation_id="cancel_run")
async def cancel(service: Served, caller: CallsSome, id: Id) -> RunShape:
    """Cancel a run, and return it: one that has ended stays as it is, and a call that has begun goes on (409)."""
    return run_shape(await cancel_run(service, caller, id))
