"""``/v1/agents``: the agents of the caller's organisation, their versions and previews (spec 5, P3–P5, P7)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response

from capset.definitions.names import AGENT, CAPABILITY
from capset.stores.base import AgentRow, AgentStatus
from capset.wire.agents import (
    LAST,
    AgentDetail,
    AgentDiffShape,
    AgentInput,
    AgentPageShape,
    PreviewShape,
    RollbackInput,
    VersionPageShape,
)
from capset_connect.agent_files.permissions import Author
from capset_connect.agent_files.wire import detail_of, diff_of, page_of, shown_preview, versions_of
from capset_server.auth.callers import Caller
from capset_server.http.etags import UNCHANGED, IfMatch, Unless, expected, is_known, tag_of, unchanged
from capset_server.rest.routing import Asked, Id, Paged, Reads, Served, StrictRoute, Writes, problems
from capset_server.service import Service

router = APIRouter(prefix="/agents", tags=["agents"], route_class=StrictRoute)


class AgentFilter(Paged):
    """Only agents that fit everything given."""

    status: AgentStatus | None = None
    name: Annotated[str | None, Query(max_length=100)] = None
    capability: Annotated[str | None, Query(pattern=f"^{CAPABILITY.pattern}$")] = None
    """Those that name this capability, by its id or an alias."""
    mcp_servers: Annotated[bool, Query(description="Only those with MCP servers of their own.")] = False
    cursor: Annotated[str | None, Query(pattern=f"^(~{AGENT.pattern}|[0-9a-f-]{{1,200}})$")] = None
    """Of those that are defined in code, ``~`` and the name that the page before ended with."""


@router.post("", status_code=201, responses=problems(400, 413, 415, 422), operation_id="create_agent")
async def create_agent(
    service: Served, caller: Writes, body: AgentInput, request: Request, response: Response
) -> AgentDetail:
    """Make an agent. Every capability that cannot be had is named, and nothing is kept then."""
    row = await service.agents.create(caller.principal.org, body, author=author_of(caller))
    response.headers["Location"] = f"{request.scope['root_path']}/v1/agents/{row.id}"
    return await _written(service, row, response)


@router.get("", responses=problems(422), operation_id="list_agents")
async def list_agents(service: Served, caller: Reads, params: Annotated[AgentFilter, Query()]) -> AgentPageShape:
    """List agents: those that are defined in code by name, then the stored ones, newest first."""
    return await page_of(
        service.kernel,
        service.agents,
        caller.principal.org,
        status=params.status,
        name=params.name,
        capabilities=_known_as(service, params.capability),
        has_servers=params.mcp_servers,
        limit=params.limit,
        cursor=params.cursor,
    )


def _known_as(service: Service, capability: str | None) -> tuple[str, ...]:
    """Return every id under which agents may name a capability: an alias may be what an earlier version called it."""
    if capability is None:
        return ()
    registry = service.registry
    installed = registry.capabilities.get(capability) or registry.aliases.get(capability)
    return (capability,) if installed is None else (installed.name, *installed.aliases)


@router.get(
    "/{id}", responses={**UNCHANGED, **problems(404, 422)}, operation_id="get_agent", response_model=AgentDetail
)
async def get_agent(
    service: Served, caller: Reads, id: Id, response: Response, unless: Unless = None
) -> AgentDetail | Response:
    """Return one agent. A capability of it that has gone since is told in its notices."""
    loaded = await service.agents.get(caller.principal.org, id)
    # An agent defined in code always has the same version, and notices have none: both may change with a restart.
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
    return await _written(service, row, response)


@router.delete("/{id}", status_code=204, responses=problems(400, 404, 409, 412, 422), operation_id="archive_agent")
async def archive_agent(service: Served, caller: Writes, id: Id, if_match: IfMatch = None) -> None:
    """Archive an agent: it takes no new sessions, and those that it has can only be read. Its records stay."""
    archived = {"status": "archived"}
    await service.agents.change(
        caller.principal.org, id, archived, author=author_of(caller), version=expected(if_match)
    )


def author_of(caller: Caller) -> Author:
    """Return a caller as an author of agents."""
    principal = caller.principal
    return Author(f"{principal.kind}:{principal.id}", caller.has("capset:admin"), principal)


async def _written(service: Service, row: AgentRow, response: Response) -> AgentDetail:
    response.headers["ETag"] = tag_of(row.version)
    return detail_of(service.kernel, await service.agents.loaded(row))


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
    service: Served, caller: Reads, id: Id, params: Annotated[VersionFilter, Query()]
) -> VersionPageShape:
    """List the versions of an agent, newest first. One that is defined in code has one."""
    return await versions_of(
        service.kernel, service.agents, caller.principal.org, id, limit=params.limit, cursor=params.cursor
    )


@router.get("/{id}/versions/{version}", responses=problems(404, 422), operation_id="get_agent_version")
async def get_agent_version(service: Served, caller: Reads, id: Id, version: Number, response: Response) -> AgentDetail:
    """Return an agent as it was in one version; ``updated_at`` is when that was written."""
    detail = detail_of(service.kernel, await service.agents.at(caller.principal.org, id, version))
    response.headers["ETag"] = tag_of(detail.version)
    return detail


@router.post("/{id}/rollback", responses=problems(400, 404, 409, 412, 413, 415, 422), operation_id="rollback_agent")
async def rollback_agent(
    service: Served, caller: Writes, id: Id, body: RollbackInput, response: Response, if_match: IfMatch = None
) -> AgentDetail:
    """Write again what a version said, as the next one; its status stays. It is checked as every change is."""
    row = await service.agents.rollback(
        caller.principal.org, id, body.version, author=author_of(caller), version=expected(if_match)
    )
    response.headers["ETag"] = tag_of(row.version)
    return detail_of(service.kernel, await service.agents.loaded(row))


@router.get(
    "/{id}/diff",
    responses=problems(404, 422),
    operation_id="diff_agent_versions",
    response_model_exclude_unset=True,  # unknown members are omitted; a null is data
)
async def diff_agent_versions(
    service: Served, caller: Reads, id: Id, params: Annotated[BothVersions, Query()]
) -> AgentDiffShape:
    """Compare two versions: the fields that were written otherwise, and what comes of them for the caller today."""
    return await diff_of(
        service.kernel,
        service.agents,
        id,
        params.before,
        params.after,
        author=author_of(caller),
        principal=caller.principal,
        env=service.env,
    )


@router.post("/preview", responses=problems(400, 413, 415, 422), operation_id="preview_agent")
async def preview_agent(service: Served, caller: Reads, body: AgentInput) -> PreviewShape:
    """Return what a new agent would be: its prompt, tools and hashes, or everything that is wrong with it.

    Nothing is kept, and nothing is on record.
    """
    preview = await service.agents.preview(body, org=caller.principal.org)
    return await shown_preview(
        service.kernel, preview, author=author_of(caller), principal=caller.principal, env=service.env
    )


@router.post(
    "/{id}/preview",
    responses=problems(400, 404, 409, 413, 415, 422),
    operation_id="preview_agent_change",
    response_model_exclude_unset=True,  # in the diff, as in that of two versions
)
async def preview_agent_change(
    service: Served,
    caller: Reads,
    id: Id,
    patch: Annotated[dict[str, Any], Body(description="A JSON merge patch (RFC 7396); {} shows it as it is.")],
) -> PreviewShape:
    """Return what a change would make of an agent, and how that differs. Nothing is kept, and nothing is on record."""
    preview = await service.agents.preview_change(caller.principal.org, id, patch)
    return await shown_preview(
        service.kernel, preview, author=author_of(caller), principal=caller.principal, env=service.env, id=id
    )
