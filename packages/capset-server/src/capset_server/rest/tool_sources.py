"""``/v1/tool-sources``: the MCP servers and APIs of the configuration, and approval of their tools (spec 7, M27)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from capset.errors import NotFound, PermissionDenied
from capset.wire.agent_servers import (
    ChangedApprovals,
    ToolApprovals,
    ToolSources,
    ToolSourceShape,
    ToolSourceState,
    ToolWithdrawals,
)
from capset_connect.declared_sources import DeclaredSources
from capset_connect.pins.tool_states import source_page, source_shape
from capset_server.auth.callers import Caller
from capset_server.rest.agent_servers import Administers, ToolFilter
from capset_server.rest.routing import Id, Served, StrictRoute, problems
from capset_server.service import Service

router = APIRouter(prefix="/tool-sources", tags=["tool-sources"], route_class=StrictRoute)


async def _operates(caller: Administers) -> Caller:
    """Return the caller if it is an operator, since approvals here apply to the agents of every organisation."""
    if not _is_operator(caller):
        raise PermissionDenied(
            f"Permission denied: this key belongs to {caller.principal.org!r}; the configuration's tools are for every "
            "organisation, so only operators, whose keys belong to none, may approve them"
        )
    return caller


Operates = Annotated[Caller, Depends(_operates)]


@router.get("", responses=problems(422), operation_id="list_tool_sources")
async def list_tool_sources(service: Served, caller: Administers) -> ToolSources:
    """List the MCP servers and APIs of the configuration, without querying them."""
    is_operator, sources = _is_operator(caller), service.sources
    items: list[ToolSourceShape] = []
    if sources is not None:
        summaries = await sources.summaries()
        items = [source_shape(summary, sources.options, is_operator=is_operator) for summary in summaries]
    return ToolSources(items=items, may_approve=is_operator)


@router.get("/{id}", responses=problems(404, 409, 422), operation_id="get_tool_source")
async def get_tool_source(
    service: Served, caller: Administers, id: Id, query: Annotated[ToolFilter, Query()]
) -> ToolSourceState:
    """Query one source, and return it with the approved and the current description of each tool."""
    sources = _sources(service)
    summary, report = await sources.look(id, caller.principal)
    return source_page(
        summary,
        sources.options,
        report,
        is_operator=_is_operator(caller),
        limit=query.limit,
        cursor=query.cursor,
    )


@router.post("/{id}/approve", responses=problems(400, 404, 409, 413, 415, 422), operation_id="approve_source_tools")
async def approve_source_tools(service: Served, caller: Operates, id: Id, body: ToolApprovals) -> ChangedApprovals:
    """Approve tools as the caller has seen them: all or none. Agents have them within seconds."""
    approved = await _sources(service).approve(id, body.tools, caller.principal)
    return ChangedApprovals(tools=[tool.name for tool in approved])


@router.post("/{id}/withdraw", responses=problems(400, 404, 409, 413, 415, 422), operation_id="withdraw_source_tools")
async def withdraw_source_tools(service: Served, caller: Operates, id: Id, body: ToolWithdrawals) -> ChangedApprovals:
    """Withdraw approvals of tools: all or none. The MCP server or API is not queried."""
    return ChangedApprovals(tools=await _sources(service).withdraw(id, body.tools, caller.principal))


def _sources(service: Service) -> DeclaredSources:
    if service.sources is None:
        raise NotFound("this server has no configuration that declares MCP servers or APIs")
    return service.sources


def _is_operator(caller: Caller) -> bool:
    return caller.principal.org is None
