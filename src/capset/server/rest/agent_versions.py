"""``/v1/agents/{id}/versions``, ``/rollback`` and ``/diff``: what an agent was, and going back (spec 5, P5, P7)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from capset.adapters.agent_shapes import detail_of, diff_of, versions_of
from capset.server.rest.agents import author_of
from capset.server.rest.parts import Asked, Id, Reads, Served, StrictRoute, Writes, problems
from capset.server.rest.tags import IfMatch, expected, tag_of
from capset.wire.agent_versions import LAST, AgentDiffShape, RollbackInput, VersionPageShape
from capset.wire.agents import AgentDetail

router = APIRouter(prefix="/agents", tags=["agents"], route_class=StrictRoute)

Number = Annotated[int, Path(ge=1, le=LAST)]


class VersionFilter(Asked):
    """Which page of versions: ``cursor`` is the ``next`` of the page before, a version's number."""

    limit: Annotated[int, Query(ge=1, le=200)] = 50
    cursor: Annotated[str | None, Query(pattern="^[1-9][0-9]{0,8}$")] = None


class BothVersions(Asked):
    """Two versions of an agent; ``after`` is the present one unless it is said."""

    before: Annotated[int, Query(ge=1, le=LAST)]
    after: Annotated[int | None, Query(ge=1, le=LAST)] = None


@router.get("/{id}/versions", responses=problems(404, 422), operation_id="list_agent_versions")
async def list_agent_versions(
    service: Served, caller: Reads, id: Id, wanted: Annotated[VersionFilter, Query()]
) -> VersionPageShape:
    """List the versions of an agent, newest first. One that is defined in code has one."""
    return await versions_of(
        service.kernel, service.agents, caller.principal.org, id, limit=wanted.limit, cursor=wanted.cursor
    )


@router.get("/{id}/versions/{version}", responses=problems(404, 422), operation_id="get_agent_version")
async def get_agent_version(service: Served, caller: Reads, id: Id, version: Number, response: Response) -> AgentDetail:
    """Return an agent as it was in one version; ``updated_at`` is when that was written."""
    detail = detail_of(service.kernel, await service.agents.at(caller.principal.org, id, version))
    response.headers["ETag"] = tag_of(detail.version)
    return detail


@router.post("/{id}/rollback", responses=problems(400, 404, 409, 412, 413, 415, 422), operation_id="rollback_agent")
async def rollback_agent(
    service: Served, caller: Writes, id: Id, given: RollbackInput, response: Response, if_match: IfMatch = None
) -> AgentDetail:
    """Write again what a version said, as the next one; its status stays. It is checked as every change is."""
    row = await service.agents.rollback(
        caller.principal.org, id, given.version, author=author_of(caller), version=expected(if_match)
    )
    response.headers["ETag"] = tag_of(row.version)
    return detail_of(service.kernel, service.agents.loaded(row))


@router.get(
    "/{id}/diff",
    responses=problems(404, 422),
    operation_id="diff_agent_versions",
    response_model_exclude_unset=True,  # what is not known is left out; a null is data
)
async def diff_agent_versions(
    service: Served, caller: Reads, id: Id, wanted: Annotated[BothVersions, Query()]
) -> AgentDiffShape:
    """Compare two versions: the fields that were written otherwise, and what comes of them for the caller today."""
    return await diff_of(
        service.kernel,
        service.agents,
        id,
        wanted.before,
        wanted.after,
        author=author_of(caller),
        principal=caller.principal,
        env=service.env,
    )
