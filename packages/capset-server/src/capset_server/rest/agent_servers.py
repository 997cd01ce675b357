"""``/v1/agents/{id}/mcp-servers``: the MCP servers of a stored agent, and the approval of their tools (spec 7, M26)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from capset.wire.agent_servers import (
    AgentServerState,
    AgentServerStates,
    ChangedApprovals,
    ToolApprovals,
    ToolWithdrawals,
)
from capset_connect.pins.tool_states import server_page, server_states
from capset_server.auth.callers import Caller
from capset_server.rest.routing import Asked, Id, Served, StrictRoute, needs, problems

router = APIRouter(prefix="/agents/{id}/mcp-servers", tags=["agent-servers"], route_class=StrictRoute)
Administers = Annotated[Caller, Depends(needs("capset:admin"))]
Name = Annotated[str, Path(min_length=1, max_length=32)]


class ToolFilter(Asked):
    """A page of tools. ``cursor`` is the ``next`` of the previous page."""

    limit: Annotated[int, Query(ge=1, le=200)] = 50
    cursor: Annotated[str | None, Query(pattern="^[1-9][0-9]{0,5}$")] = None


@router.get("", responses=problems(404, 409, 422), operation_id="list_agent_mcp_servers")
async def list_agent_mcp_servers(service: Served, caller: Administers, id: Id) -> AgentServerStates:
    """Query the MCP servers of an agent, and list them with their tools, or with the reason why a query failed."""
    row = await service.agents.stored(caller.principal.org, id)
    return server_states(await service.agents.servers.look(row))


@router.get("/{name}", responses=problems(404, 409, 422), operation_id="get_agent_mcp_server")
async def get_agent_mcp_server(
    service: Served, caller: Administers, id: Id, name: Name, params: Annotated[ToolFilter, Query()]
) -> AgentServerState:
    """Return one MCP server of an agent, with the approved and the current description of each tool."""
    row = await service.agents.stored(caller.principal.org, id)
    (server_state,) = await service.agents.servers.look(row, name)
    return server_page(server_state, limit=params.limit, cursor=params.cursor)


@router.post(
    "/{name}/approve",
    responses=problems(400, 404, 409, 413, 415, 422),
    operation_id="approve_agent_mcp_tools",
)
async def approve_agent_mcp_tools(
    service: Served, caller: Administers, id: Id, name: Name, body: ToolApprovals
) -> ChangedApprovals:
    """Approve tools of an agent's MCP server as the caller has seen them: all or none."""
    org = caller.principal.org
    approved = await service.agents.approve_tools(org, id, name, body.tools, by=caller.principal)
    service.forget_agent(id)
    return ChangedApprovals(tools=[tool.name for tool in approved])


@router.post(
    "/{name}/withdraw",
    responses=problems(400, 404, 409, 413, 415, 422),
    operation_id="withdraw_agent_mcp_tools",
)
async def withdraw_agent_mcp_tools(
    service: Served, caller: Administers, id: Id, name: Name, body: ToolWithdrawals
) -> ChangedApprovals:
    """Withdraw approvals of tools of an agent's MCP server: all or none. The server is not queried."""
    row = await service.agents.stored(caller.principal.org, id)
    withdrawn = await service.agents.servers.withdraw(row, name, body.tools, caller.principal)
    service.forget_agent(id)
    return ChangedApprovals(tools=withdrawn)
