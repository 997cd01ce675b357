"""``/v1/agents``: the agents of the caller's organisation (spec 5, P3, P4, P7)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response

from capset.adapters.agent_guard import Author
from capset.adapters.agent_shapes import detail_of, page_of
from capset.definitions.names import AGENT
from capset.server.caller import Caller
from capset.server.rest.parts import Id, Paged, Reads, Served, StrictRoute, Writes, problems
from capset.server.rest.tags import UNCHANGED, IfMatch, Unless, expected, is_known, tag_of, unchanged
from capset.server.service import Service
from capset.stores.base import AgentRow, AgentStatus
from capset.wire.agents import AgentDetail, AgentInput, AgentPageShape

router = APIRouter(prefix="/agents", tags=["agents"], route_class=StrictRoute)


class AgentFilter(Paged):
    """Only agents that fit everything given."""

    status: AgentStatus | None = None
    name: Annotated[str | None, Query(max_length=100)] = None
    cursor: Annotated[str | None, Query(pattern=f"^(~{AGENT.pattern}|[0-9a-f-]{{1,200}})$")] = None
    """Of those that are defined in code, ``~`` and the name that the page before ended with."""


@router.post("", status_code=201, responses=problems(400, 413, 415, 422), operation_id="create_agent")
async def create_agent(
    service: Served, caller: Writes, given: AgentInput, request: Request, response: Response
) -> AgentDetail:
    """Make an agent. Every capability that cannot be had is named, and nothing is kept then."""
    row = await service.agents.create(caller.principal.org, given, author=author_of(caller))
    response.headers["Location"] = f"{request.scope['root_path']}/v1/agents/{row.id}"
    return _written(service, row, response)


@router.get("", responses=problems(422), operation_id="list_agents")
async def list_agents(service: Served, caller: Reads, wanted: Annotated[AgentFilter, Query()]) -> AgentPageShape:
    """List agents: those that are defined in code by name, then the stored ones, newest first."""
    return await page_of(
        service.kernel,
        service.agents,
        caller.principal.org,
        status=wanted.status,
        name=wanted.name,
        limit=wanted.limit,
        cursor=wanted.cursor,
    )


@router.get(
    "/{id}", responses={**UNCHANGED, **problems(404, 422)}, operation_id="get_agent", response_model=AgentDetail
)
async def get_agent(
    service: Served, caller: Reads, id: Id, response: Response, unless: Unless = None
) -> AgentDetail | Response:
    """Return one agent. A capability of it that has gone since is told in its notices."""
    loaded = await service.agents.get(caller.principal.org, id)
    # What is defined in code has one version, and notices none: both may differ from one start to the next.
    if loaded.row is not None and not loaded.notices and is_known(loaded.row.version, unless):
        return unchanged(loaded.row.version)
    detail = detail_of(service.kernel, loaded)
    response.headers["ETag"] = tag_of(detail.version)
    return detail


@router.patch("/{id}", responses=problems(400, 404, 409, 412, 413, 415, 422), operation_id="change_agent")
async def change_agent(
    service: Served,
    caller: Writes,
    id: Id,
    patch: Annotated[dict[str, Any], Body(description="A JSON merge patch (RFC 7396): null clears a member.")],
    response: Response,
    if_match: IfMatch = None,
) -> AgentDetail:
    """Change an agent, whole or not at all. Every change makes a version."""
    row = await service.agents.change(
        caller.principal.org, id, patch, author=author_of(caller), version=expected(if_match)
    )
    return _written(service, row, response)


@router.delete("/{id}", status_code=204, responses=problems(400, 404, 409, 412, 422), operation_id="archive_agent")
async def archive_agent(service: Served, caller: Writes, id: Id, if_match: IfMatch = None) -> None:
    """Archive an agent: it takes no new sessions. Its sessions and its records stay."""
    archived = {"status": "archived"}
    await service.agents.change(
        caller.principal.org, id, archived, author=author_of(caller), version=expected(if_match)
    )


def author_of(caller: Caller) -> Author:
    """Return who a caller is to agents that are written."""
    return Author(f"{caller.principal.kind}:{caller.principal.id}", caller.has("capset:admin"))


def _written(service: Service, row: AgentRow, response: Response) -> AgentDetail:
    response.headers["ETag"] = tag_of(row.version)
    return detail_of(service.kernel, service.agents.loaded(row))
