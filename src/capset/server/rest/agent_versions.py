"""``/v1/agents/{id}/versions``, ``/rollback`` and ``/diff``: what an agent was, and going back (spec 5, P5, P7)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from capset.adapters.agent_diffs import diff_agents
from capset.server.rest.agents import author_of, detail_of
from capset.server.rest.parts import Asked, Id, Reads, Served, StrictRoute, Writes, problems
from capset.server.rest.tags import IfMatch, expected, tag_of
from capset.stores.base import VersionQuery
from capset.wire.agent_versions import (
    LAST,
    AgentDiffShape,
    RollbackInput,
    VersionPageShape,
    agent_diff_shape,
    defined_version_shape,
    version_shape,
)
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
    before = None if wanted.cursor is None else int(wanted.cursor)
    loaded = await service.agent(caller, id)
    if loaded.row is None:
        only = defined_version_shape(service.kernel.compose(loaded.agent))
        return VersionPageShape(items=[only] if before is None or before > 1 else [])
    page = await service.agents.versions(VersionQuery(caller.principal.org, id, wanted.limit, before))
    following = None if page.next is None else str(page.next)
    return VersionPageShape(items=[version_shape(row) for row in page.items], next=following)


@router.get("/{id}/versions/{version}", responses=problems(404, 422), operation_id="get_agent_version")
async def get_agent_version(service: Served, caller: Reads, id: Id, version: Number, response: Response) -> AgentDetail:
    """Return an agent as it was in one version; ``updated_at`` is when that was written."""
    detail = detail_of(service, await service.agents.at(caller.principal.org, id, version))
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
    return detail_of(service, service.agents.loaded(row))


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
    org = caller.principal.org
    before = await service.agents.at(org, id, wanted.before)
    after = await (service.agent(caller, id) if wanted.after is None else service.agents.at(org, id, wanted.after))
    found = await diff_agents(service.kernel, before, after, principal=caller.principal, env=service.env)
    return agent_diff_shape(found.before, found.after, found.changes, found.composed, found.notices)
