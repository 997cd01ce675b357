"""Wire shapes of how the MCP servers of stored agents stand to what was approved of them (spec 7, M26)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from capset.adapters.mcp.server import McpServer
from capset.adapters.pins import SeenSource, Standing, shape_of
from capset.wire.agent_servers import AgentServerState, AgentServerStates, ServerToolShape, ToolApprovalShape
from capset.wire.pages import fitting_items


def server_states(seen: Iterable[SeenSource[McpServer]]) -> AgentServerStates:
    """Return the wire shape of MCP servers, without what is said of each tool."""
    return AgentServerStates(items=[_state(one, [_tool(one, tool) for tool in one.tools]) for one in seen])


def server_page(seen: SeenSource[McpServer], *, limit: int, cursor: str | None) -> AgentServerState:
    """Return one page of the tools of an MCP server, with what was approved of each, and what is said of it now."""
    first = int(cursor or 0)
    tools = list(fitting_items(_tool(seen, one, is_whole=True) for one in seen.tools[first : first + limit]))
    after = first + len(tools)
    return _state(seen, tools, str(after) if after < len(seen.tools) else None)


def _state(seen: SeenSource[McpServer], tools: list[ServerToolShape], following: str | None = None) -> AgentServerState:
    return AgentServerState(
        name=seen.source.name,
        url=seen.source.url or "",
        tools=tools,
        unmatched=list(seen.unmatched),
        problem=seen.problem,
        next=following,
    )


def _tool(seen: SeenSource[McpServer], tool: Standing, *, is_whole: bool = False) -> ServerToolShape:
    from capset.adapters.mcp.tools import effect_in

    pin, offer = tool.pin, tool.offer
    before = None if pin is None else dict(shape_of(pin))
    now = None if offer is None else dict(offer.shape)
    shape: dict[str, Any] = before or now or {"name": tool.name}
    differs = is_whole and tool.state != "approved"
    return ServerToolShape(
        tool=tool.name,
        state=seen.state(tool),
        hash=None if offer is None else offer.hash,
        approved=pin and ToolApprovalShape(hash=pin.hash, by=pin.approved_by, at=pin.approved_at),
        effect=effect_in(seen.source, shape),
        problems=list(tool.problems),
        before=before if differs else None,
        now=now if differs else None,
    )
