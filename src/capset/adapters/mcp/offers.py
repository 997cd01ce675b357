"""Tools, and the chosen prompts, as their MCP server lists them (spec 7, M4, M21)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND
from mcp_types import Prompt as McpPrompt
from mcp_types import Tool as McpTool

from capset.adapters.mcp.server import PROMPTS, READ, McpServer, misnamed_rule
from capset.adapters.offers import MAX_TOOLS, Offer, distinct, examined
from capset.adapters.tool_rules import EVERY
from capset.errors import ToolError, unknown

_MAX_PAGES: Final = 100
_MAX_NAME: Final = 256
"""Limit on the length of a name that is kept, in characters; tools that can be called have shorter names."""
PROMPT: Final = "prompt"
"""The value of the member ``kind`` in the shape of a prompt; the shape of a tool has no such member."""
Listed = TypeVar("Listed", McpTool, McpPrompt)
Fetch = Callable[[str | None], Awaitable[tuple[Sequence[Listed], str | None]]]
"""Returns a page of a list, and the cursor of the next one."""


async def offers_of(server: McpServer, client: Client, mask: Callable[[Any], Any]) -> Sequence[Offer]:
    """Return the tools and the chosen prompts that a server has now, by name.

    ``mask`` masks credentials in what it says of them, which is JSON. Raises ``ToolError`` for lists without end.
    """

    async def tools(cursor: str | None) -> tuple[Sequence[McpTool], str | None]:
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        return page.tools, page.next_cursor

    async def prompts(cursor: str | None) -> tuple[Sequence[McpPrompt], str | None]:
        page = await client.list_prompts(cursor=cursor, cache_mode="bypass")
        return page.prompts, page.next_cursor

    offers: list[Offer] = []
    for tool in await _listed(server, tools, server.tools):
        offers.append(offer_of(server, tool, mask))
        await asyncio.sleep(0)  # others wait for one tool at most: each may have 256 KiB of schemas
    for prompt in await _listed(server, prompts, server.prompts) if server.prompts else ():
        offers.append(prompt_offer(server, prompt, mask))
        await asyncio.sleep(0)
    by_name: dict[str, Offer] = {}
    for offer in offers:
        first = by_name.setdefault(offer.name, offer)
        if first is not offer:
            by_name[offer.name] = offer.with_problems("its server lists another tool of this name")
    return distinct(sorted(by_name.values(), key=lambda offer: offer.name), server.tool_name)


def kept_of(offers: Iterable[Offer]) -> Sequence[Offer]:
    """Return offers as a connection keeps them: without what is said of each, and none whose name is too long."""
    return [replace(offer, shape={"name": offer.name}) for offer in offers if len(offer.name) <= _MAX_NAME]


async def _listed(server: McpServer, fetch: Fetch[Listed], names: Iterable[str] | None) -> Sequence[Listed]:
    """Return what a server lists of these names, or all. Raises ``ToolError`` for a list without end."""
    found: list[Listed] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        try:
            items, after = await fetch(cursor)
        except MCPError as error:
            if error.error.code == METHOD_NOT_FOUND and cursor is None:
                return ()  # a server that has only resources, say, lists no tools
            raise
        found += [one for one in items if names is None or one.name in names]
        if len(found) > MAX_TOOLS or after in seen:
            break
        if after is None:
            return found
        seen.add(after)
        cursor = after
    raise ToolError(
        f"The MCP server {server.name!r} lists more than {MAX_TOOLS:,} tools, or pages without end.",
        code="too_many_tools",
        status=502,
    )


def unmatched(server: McpServer, offers: Sequence[Offer]) -> list[str]:
    """Return a sentence for each name in the declaration that the server has not, or that it leaves out itself."""
    tools = {one.name for one in offers if not one.name.startswith(PROMPTS)}
    prompts = {one.name.removeprefix(PROMPTS) for one in offers if one.name.startswith(PROMPTS)}
    chosen = {*(server.tools or ()), *(f"{PROMPTS}{one}" for one in server.prompts)}
    known = {EVERY, *named(server, offers), *chosen}
    found = [_unmatched_rule(server, one, tools) for one in sorted({*server.rules} - known)]
    found += [f"tools: {unknown('tool', one, tools)}" for one in sorted({*(server.tools or ())} - tools)]
    return found + [f"prompts: {unknown('prompt', one, prompts)}" for one in sorted({*server.prompts} - prompts)]


def named(server: McpServer, offers: Iterable[Offer]) -> set[str]:
    """Return the names of tools that rules may have, ``resources/read`` among them if the server has such a tool."""
    return {*((READ,) if server.resources else ()), *(one.name for one in offers)}


def _unmatched_rule(server: McpServer, name: str, tools: Iterable[str]) -> str:
    """Return what is wrong with the name of a rule; it is none of those that the host chose."""
    return misnamed_rule(server, name) or f"rules: {unknown('tool', name, tools)}"


def is_used(server: McpServer, shape: Mapping[str, Any]) -> bool:
    """Return whether a tool, or a prompt, is one of those that the host chose."""
    if shape.get("kind") == PROMPT:
        return shape["name"].removeprefix(PROMPTS) in server.prompts
    return server.tools is None or shape["name"] in server.tools


def offer_of(server: McpServer, tool: McpTool, mask: Callable[[Any], Any]) -> Offer:
    """Return what a server says of one tool, with what is wrong with it."""
    members = {"name", "title", "description", "input_schema", "output_schema", "annotations"}
    shape = mask(tool.model_dump(mode="json", by_alias=True, exclude_none=True, include=members))
    name = server.tool_name(tool.name)
    offer = examined(tool.name, name, shape)
    if server.resources and name == server.tool_name(READ):
        return offer.with_problems(f"here it would be called {name}, as the tool that reads resources is")
    return offer


def prompt_offer(server: McpServer, prompt: McpPrompt, mask: Callable[[Any], Any]) -> Offer:
    """Return what a server says of one prompt, with what is wrong with it: a tool of ``prompts/NAME`` that reads."""
    given = prompt.arguments or ()
    properties: dict[str, Any] = {
        one.name: {"type": "string"} | {name: text for name in ("title", "description") if (text := getattr(one, name))}
        for one in given
    }
    name = f"{PROMPTS}{prompt.name}"
    shape: dict[str, Any] = {
        "kind": PROMPT,
        "name": name,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": sorted(one.name for one in given if one.required),
            "additionalProperties": False,
        },
    }
    shape |= {member: text for member in ("title", "description") if (text := getattr(prompt, member)) is not None}
    offer = examined(name, server.tool_name(name), mask(shape))
    return offer if len(properties) == len(given) else offer.with_problems("two of its arguments have one name")
