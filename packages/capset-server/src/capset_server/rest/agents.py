"""``/v1/agents``: the agents of the caller's organisation, their versions and previews (spec 5, P3–P5, P7)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response

from capset.definitions.names import AGENT, CAPABILITY
from capset.stores.base import AgentRow, AgentStatus
from capset.wire.agents import (
    MAX_VERSION,
    AgentDetail,
    AgentDiffShape,
    AgentInput,
    AgentPageShape,
    PreviewShape,
    RollbackInput,
    VersionPageShape,
)
from capset_connect.agents.permissions import Author
from capset_connect.agents.wire import detail_of, diff_of, page_of, shown_preview, versions_of
from capset_server.auth.callers import Caller
from capset_server.http.etags import UNCHANGED, IfMatch, Unless, expected, is_known, tag_of, unchanged
from capset_server.rest.routing import Asked, Id, Paged, Reads, Served, StrictRoute, Writes, problems
from capset_server.service import Service

router = APIRouter(prefix="/agents", tags=["agents"], route_class=StrictRoute)


class AgentFilter(Paged):
    """Agents that match all given filters."""

    status: AgentStatus | None = None
    name: Annotated[str | None, Query(max_length=100)] = None
    text: Annotated[str | None, Query(max_length=100, description="Part of a name, in upper or lower case")] = None
    capability: Annotated[str | None, Query(pattern=f"^{CAPABILITY.pattern}$")] = None
    """Only agents that use this capability, by its id or an alias."""
    mcp_servers: Annotated[bool, Query(description="Only agents that declare MCP servers.")] = False
    cursor: Annotated[str | None, Query(pattern=f"^(~{AGENT.pattern}|[0-9a-f-]{{1,200}})$")] = None
    """For agents defined in code, ``~`` and the last name of the previous page."""


@router.post("", status_code=201, responses=problems(400, 413, 415, 422), operation_id="create_agent")
async def create_agent(
    service: Served, caller: Writes, body: AgentInput, request: Request, response: Response
) -> AgentDetail:
    """Create an agent. The error for unavailable capabilities names all of them, and nothing is stored."""
    row = await service.agents.create(caller.principal.org, body, author=author_of(caller))
    response.headers["Location"] = f"{request.scope['root_path']}/v1/agents/{row.id}"
    return await _written(service, row, response)


@router.get("", responses=problems(422), operation_id="list_agents")
async def list_agents(service: Served, caller: Reads, params: Annotated[AgentFilter, Query()]) -> AgentPageShape:
    """List agents: those defined in code, by name, then the stored ones, newest first."""
    return await page_of(
        service.kernel,
        service.agents,
        caller.principal.org,
        status=params.status,
        name=params.name,
        text=params.text,
        capabilities=_known_as(service, params.capability),
        has_servers=params.mcp_servers,
        limit=params.limit,
        cursor=params.cursor,
    )


def _known_as(service: Service, capability: str | None) -> tuple[str, ...]:
    """Return every id by which agents may name a capability: an alias may be its id in an earlier version."""
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
    """Return one agent. Its notices report capabilities that are no longer available."""
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
    """Change an agent, completely or not at all. Every change creates a version."""
    row = await service.agents.change(
        caller.principal.org, id, patch, author=author_of(caller), version=expected(if_match)
    )
    return await _written(service, row, response)


@router.delete("/{id}", status_code=204, responses=problems(400, 404, 409, 412, 422), operation_id="archive_agent")
async def archive_agent(service: Served, caller: Writes, id: Id, if_match: IfMatch = None) -> None:
    """Archive an agent: it accepts no new sessions, and its existing ones become read-only. Its records stay."""
    archived = {"status": "archived"}
    await service.agents.change(
        caller.principal.org, id, archived, author=author_of(caller), version=expected(if_match)
    )


def author_of(caller: Caller) -> Author:
    """Return a caller as an author of agents."""
    principal = caller.principal
    return Author(principal.qualified_id, caller.has("capset:admin"), principal)


async def _written(service: Service, row: AgentRow, response: Response) -> AgentDetail:
    response.headers["ETag"] = tag_of(row.version)
    return detail_of(service.kernel, await service.agents.loaded(row))


Number = Annotated[int, Path(ge=1, le=MAX_VERSION)]


class VersionFilter(Asked):
    """A page of versions. ``cursor`` is the ``next`` of the previous page, a version number."""

    limit: Annotated[int, Query(ge=1, le=200)] = 50
    cursor: Annotated[str | None, Query(pattern="^[1-9][0-9]{0,8}$")] = None


class BothVersions(Asked):
    """Two versions of an agent. ``after`` defaults to the current one."""

    before: Annotated[int, Query(ge=1, le=MAX_VERSION)]
    after: Annotated[int | None, Query(ge=1, le=MAX_VERSION)] = None


@router.get("/{id}/versions", responses=problems(404, 422), operation_id="list_agent_versions")
async def list_agent_versions(
    service: Served, caller: Reads, id: Id, params: Annotated[VersionFilter, Query()]
) -> VersionPageShape:
    """List the versions of an agent, newest first. An agent defined in code has exactly one."""
    return await versions_of(
        service.kernel, service.agents, caller.principal.org, id, limit=params.limit, cursor=params.cursor
    )


@router.get("/{id}/versions/{version}", responses=problems(404, 422), operation_id="get_agent_version")
async def get_agent_version(service: Served, caller: Reads, id: Id, version: Number, response: Response) -> AgentDetail:
    """Return one version of an agent. ``updated_at`` is when that version was written."""
    detail = detail_of(service.kernel, await service.agents.at(caller.principal.org, id, version))
    response.headers["ETag"] = tag_of(detail.version)
    return detail


@router.post("/{id}/rollback", responses=problems(400, 404, 409, 412, 413, 415, 422), operation_id="rollback_agent")
async def rollback_agent(
    service: Served, caller: Writes, id: Id, body: RollbackInput, response: Response, if_match: IfMatch = None
) -> AgentDetail:
    """Restore an earlier version as a new one; the status stays. It is checked like any other change."""
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
    """Compare two versions: the fields that differ, and what that changes for the caller today."""
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
    """Preview a new agent: its prompt, tools and hashes, or everything that is wrong with it.

    Nothing is stored or recorded.
    """
    preview = await service.agents.preview(body, org=caller.principal.org)
    return await shown_preview(
        service.kernel, preview, author=author_of(caller), principal=caller.principal, env=service.env
    )


@router.post(
    "/{id}/preview",
    responses=problems(400, 404, 409, 413, 415, 422),
    operation_id="preview_agent_change",
    response_model_exclude_unset=True,  # for the diff, as for that of two versions
)
async def preview_agent_change(
    service: Served,
    caller: Reads,
    id: Id,
    patch: Annotated[dict[str, Any], Body(description="A JSON merge patch (RFC 7396); {} previews the agent itself.")],
) -> PreviewShape:
    """Preview a change to an agent, with the differences. Nothing is stored or recorded."""
    preview = await service.agents.preview_change(caller.principal.org, id, patch)
    return await shown_preview(
        service.kernel, preview, author=author_of(caller), principal=caller.principal, env=service.env, id=id
    )
