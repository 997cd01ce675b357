"""``/v1/sessions``: the caller's own conversations (spec 5, P8, P11)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from capset.stores.base import SessionQuery, SessionRow
from capset.wire.lineage import TransitionsShape, transition_shape
from capset.wire.pages import fitting_items
from capset.wire.runs import Whose
from capset.wire.sessions import (
    SessionInput,
    SessionPageShape,
    SessionPatch,
    SessionShape,
    StateShape,
    session_page_shape,
    session_shape,
    state_shape,
)
from capset.wire.snapshots import SessionToolPageShape, SnapshotShape, session_tool_page, snapshot_shape
from capset_server.http.etags import IfMatch, expected, tag_of
from capset_server.rest import lineage
from capset_server.rest.routing import (
    Asked,
    Calls,
    CallsSome,
    Id,
    Looks,
    ObservesTurns,
    Paged,
    Served,
    StrictRoute,
    problems,
)
from capset_server.runs.observation import check_whose

router = APIRouter(prefix="/sessions", tags=["sessions"], route_class=StrictRoute)


class SessionFilter(Paged):
    """Sessions that match all given filters: the caller's own, or with ``whose=all`` those of its organisation."""

    whose: Whose = "own"
    principal: Annotated[
        str | None, Query(max_length=200, description="Its id alone: `ada`, not `user:ada`; with `whose=all`")
    ] = None
    agent_id: Annotated[str | None, Query(max_length=200)] = None
    text: Annotated[str | None, Query(max_length=200, description="Part of its id, or of its agent's name")] = None


@router.post("", status_code=201, responses=problems(400, 404, 409, 413, 415, 422), operation_id="create_session")
async def create_session(
    service: Served, caller: CallsSome, body: SessionInput, request: Request, response: Response
) -> SessionShape:
    """Start a session of an agent. It keeps the agent's current version until it is moved."""
    row = await service.new_session(caller, body.agent_id, invocation=body.invocation, context=body.context)
    response.headers["Location"] = f"{request.scope['root_path']}/v1/sessions/{row.id}"
    return _tagged(row, response)


@router.get("", responses=problems(422), operation_id="list_sessions")
async def list_sessions(
    service: Served, caller: ObservesTurns, params: Annotated[SessionFilter, Query()]
) -> SessionPageShape:
    """List sessions, newest first: the caller's own, or, with the scope ``capset:observe``, all of its organisation.

    With ``whose=all``, the items have no ``context``.
    """
    check_whose(caller, params.whose, params.principal)
    principal, is_own = caller.principal, params.whose == "own"
    query = SessionQuery(
        principal.org,
        principal.id if is_own else params.principal,
        principal.kind if is_own else None,
        params.agent_id,
        principal.on_behalf_of if is_own else None,
        params.text,
        limit=params.limit,
        before=params.cursor,
    )
    return await session_page_shape(service.kernel.store.sessions, query, with_contexts=is_own)


@router.get("/{id}", responses=problems(404, 422), operation_id="get_session")
async def get_session(service: Served, caller: CallsSome, id: Id, response: Response) -> SessionShape:
    """Return one session. Its entity tag is the version of its agent."""
    return _tagged(await service.session_row(caller, id), response)


@router.patch("/{id}", responses=problems(400, 404, 409, 412, 413, 415, 422), operation_id="change_session")
async def change_session(
    service: Served, caller: Calls, id: Id, patch: SessionPatch, response: Response, if_match: IfMatch = None
) -> SessionShape:
    """Move a session to another version of its agent. Its files and its state stay.

    The answer is 409 for a session of MCP clients at ``/mcp/agents``, which moves by itself, and for an agent defined
    in code, which has no versions.
    """
    row = await service.move_session(caller, id, patch.agent_version, expected=expected(if_match))
    return _tagged(row, response)


@router.delete("/{id}", status_code=204, responses=problems(404, 422), operation_id="delete_session")
async def delete_session(service: Served, caller: Calls, id: Id) -> None:
    """Delete a session with its files. Its records stay."""
    await service.delete_session(caller, id)


@router.get("/{id}/snapshot", responses=problems(404, 409, 422), operation_id="get_snapshot")
async def get_snapshot(service: Served, caller: Calls, id: Id) -> SnapshotShape:
    """Return the tools that the caller may use now, why others are excluded, the system text, and the three hashes."""
    session = await service.session(caller, id)
    return snapshot_shape(await session.current(), await session.system_text())


class SessionToolFilter(Asked):
    """The tool called ``name``, or a page of those after ``cursor``, the last name of the previous page."""

    name: Annotated[str | None, Query(max_length=200)] = None
    limit: Annotated[int, Query(ge=1, le=200)] = 50
    cursor: Annotated[str | None, Query(max_length=200)] = None


@router.get("/{id}/tools", responses=problems(404, 409, 422), operation_id="list_session_tools")
async def list_session_tools(
    service: Served, caller: Calls, id: Id, params: Annotated[SessionToolFilter, Query()]
) -> SessionToolPageShape:
    """List the tools in play in a session, by the names that models use, with their schemas."""
    session = await service.session(caller, id)
    return session_tool_page(await session.current(), params.limit, name=params.name, cursor=params.cursor)


@router.get(
    "/{id}/state",
    responses=problems(404, 409, 422),
    operation_id="get_state",
    response_model_exclude_unset=True,  # an empty scope is omitted; a null is data
)
async def get_state(service: Served, caller: Calls, id: Id) -> StateShape:
    """Return what the agent's capabilities expose of their state and resources, by scope (spec 1, C36)."""
    session = await service.session(caller, id)
    return state_shape(await session.exposed())


@router.get("/{id}/transitions", responses=problems(404, 422), operation_id="list_transitions")
async def list_transitions(service: Served, caller: Looks, id: Id) -> TransitionsShape:
    """Return how the runtime hash of a session changed from link to link.

    Only callers with the scope ``capset:audit`` see those of other principals' sessions, and of deleted ones.
    """
    rows = await lineage.transitions(service, caller, id)
    newest = list(fitting_items(transition_shape(row) for row in reversed(rows)))
    return TransitionsShape(items=newest[::-1])


def _tagged(row: SessionRow, response: Response) -> SessionShape:
    if row.agent_version is not None:
        response.headers["ETag"] = tag_of(row.agent_version)
    return session_shape(row)
