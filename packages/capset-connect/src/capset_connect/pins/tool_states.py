"""Wire shapes that compare third-party tools with their approvals (spec 7, M26, M27)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from capset.definitions.tools.options import Effect
from capset.wire.agent_servers import (
    AgentServerState,
    AgentServerStates,
    ServerToolShape,
    ToolApprovalShape,
    ToolSourceShape,
    ToolSourceState,
)
from capset.wire.pages import fitting_items
from capset_connect.declared_sources import ANY_FILE, SourceSummary
from capset_connect.mcp.server import McpServer
from capset_connect.openapi.api import OpenApi
from capset_connect.pins.tool_pins import SeenSource, Standing, shape_of
from capset_connect.sources import Source

AnySource = TypeVar("AnySource", bound=Source)


def server_states(reports: Iterable[SeenSource[McpServer]]) -> AgentServerStates:
    """Return the wire shape of MCP servers, without the description of each tool."""
    return AgentServerStates(
        items=[_server_state(report, [tool_state(report, tool) for tool in report.tools]) for report in reports]
    )


def server_page(report: SeenSource[McpServer], *, limit: int, cursor: str | None) -> AgentServerState:
    """Return one page of the tools of an MCP server, with the approved and the current description of each."""
    return _server_state(report, *_page(report, limit, cursor))


def source_shape(summary: SourceSummary, options: str, *, is_operator: bool) -> ToolSourceShape:
    """Return the wire shape of a source in the configuration.

    Only operators see its address, its output, and the file and the database in the command, which ``options`` name.
    """
    source, need = summary.source, summary.need
    return ToolSourceShape(
        id=source.pin_key,
        kind="api" if isinstance(source, OpenApi) else "mcp",
        name=source.name,
        capability=source.capability,
        address=_address(source) if is_operator else None,
        state=summary.state,
        problem=summary.problem,
        approved=summary.approved,
        waiting=summary.waiting,
        need=need and need.message,
        command=need and need.remedy(options if is_operator else ANY_FILE),
        output=list(summary.output) if is_operator else [],
    )


def source_page(
    summary: SourceSummary,
    options: str,
    report: SeenSource[Source],
    *,
    is_operator: bool,
    limit: int,
    cursor: str | None,
) -> ToolSourceState:
    """Return the wire shape of a source in the configuration, with one page of its tools."""
    tools, following = _page(report, limit, cursor)
    members: dict[str, Any] = {**dict(source_shape(summary, options, is_operator=is_operator))}
    members["problem"] = report.problem or summary.problem
    return ToolSourceState(**members, tools=tools, unmatched=list(report.unmatched), next=following)


def tool_state(report: SeenSource[AnySource], tool: Standing, *, is_whole: bool = False) -> ServerToolShape:
    """Return the wire shape of a tool; if ``is_whole``, with its approved and current descriptions if they differ."""
    pin, offer = tool.pin, tool.offer
    before = None if pin is None else dict(shape_of(pin))
    now = None if offer is None else dict(offer.shape)
    shape: dict[str, Any] = before or now or {"name": tool.name}
    differs = is_whole and tool.state != "approved"
    return ServerToolShape(
        tool=tool.name,
        state=report.state(tool),
        hash=None if offer is None else offer.hash,
        approved=pin and ToolApprovalShape(hash=pin.hash, by=pin.approved_by, at=pin.approved_at),
        effect=effect_in_source(report.source, shape) or "destructive",
        problems=list(tool.problems),
        notes=list(tool.notes),
        before=before if differs else None,
        now=now if differs else None,
    )


def effect_in_source(source: Source, shape: Mapping[str, Any]) -> Effect | None:
    """Return the effect of a tool of this shape, or ``None`` for an operation without a method."""
    if isinstance(source, OpenApi):
        from capset_connect.openapi.operations import rules_for

        return rules_for(source, shape).get("effect") if "method" in shape else None
    from capset_connect.mcp.tools import effect_in

    return effect_in(source, shape)


def _address(source: Source) -> str:
    """Return the address of a source: its URL, its document, or the program to start, without arguments."""
    if isinstance(source, OpenApi):
        return source.url or (source.document if isinstance(source.document, str) else "a document in code")
    return source.url or next(iter(source.command))


def _page(report: SeenSource[AnySource], limit: int, cursor: str | None) -> tuple[list[ServerToolShape], str | None]:
    first = int(cursor or 0)
    tools = list(fitting_items(tool_state(report, tool, is_whole=True) for tool in report.tools[first : first + limit]))
    after = first + len(tools)
    return tools, str(after) if after < len(report.tools) else None


def _server_state(
    report: SeenSource[McpServer], tools: list[ServerToolShape], following: str | None = None
) -> AgentServerState:
    return AgentServerState(
        name=report.source.name,
        url=report.source.url or "",
        tools=tools,
        unmatched=list(report.unmatched),
        problem=report.problem,
        next=following,
    )
