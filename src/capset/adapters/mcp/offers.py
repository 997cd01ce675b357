"""Tools as their MCP server lists them (spec 7, M4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcp import Client
from mcp_types import Tool as McpTool

from capset.adapters.mcp.server import McpServer
from capset.adapters.offers import MAX_TOOLS, Offer, distinct, examined
from capset.adapters.tool_rules import EVERY
from capset.errors import ToolError, unknown

_MAX_PAGES: Final = 100


async def offers_of(server: McpServer, client: Client) -> Sequence[Offer]:
    """Return the tools that a server has now, by name. Raises ``ToolError`` for lists without end."""
    found: dict[str, Offer] = {}
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        for tool in page.tools:
            if server.tools is not None and tool.name not in server.tools:
                continue
            offer = offer_of(server, tool)
            twin = found.get(tool.name)
            found[tool.name] = (
                offer if twin is None else offer.with_problems("its server lists another tool of this name")
            )
        cursor = page.next_cursor
        if len(found) > MAX_TOOLS or cursor in seen:
            break
        if cursor is None:
            return distinct(sorted(found.values(), key=lambda one: one.name), server.tool_name)
        seen.add(cursor)
    raise ToolError(
        f"The MCP server {server.name!r} lists more than {MAX_TOOLS:,} tools, or pages without end.",
        code="too_many_tools",
        status=502,
    )


def unmatched(server: McpServer, offers: Sequence[Offer]) -> list[str]:
    """Return a sentence for each name in the declaration that the server does not have."""
    known = {one.name for one in offers}
    given = {"rules": {*server.rules} - {EVERY}, "tools": {*(server.tools or ())}}
    return [
        f"{what}: {unknown('tool', name, known)}" for what, names in given.items() for name in sorted(names - known)
    ]


def offer_of(server: McpServer, tool: McpTool) -> Offer:
    """Return what a server says of one tool, with what is wrong with it."""
    members = {"name", "title", "description", "input_schema", "output_schema", "annotations"}
    shape = tool.model_dump(mode="json", by_alias=True, exclude_none=True, include=members)
    return examined(tool.name, server.tool_name(tool.name), shape)
