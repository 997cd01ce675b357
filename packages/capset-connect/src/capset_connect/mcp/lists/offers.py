"""The tools and the selected prompts that an MCP server lists (spec 7, M4, M21)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from capset.errors import ToolError, unknown
from capset_connect.mcp.lists.members import as_object, members_of
from capset_connect.mcp.server import PROMPTS, READ, McpServer, misnamed_rule
from capset_connect.pins.offers import MAX_TOOLS, Offer, distinct, examined, shown, unusable
from capset_connect.tool_rules import EVERY

_MAX_PAGES: Final = 100
_MAX_NAME: Final = 256
"""The maximum length of a name that is stored, in characters. Tools that can be called have shorter names."""
PROMPT: Final = "prompt"
"""The value of the member ``kind`` in the shape of a prompt. The shape of a tool has no such member."""
_TEXTS: Final = ("title", "description")
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_TASK_SUPPORT: Final = ("forbidden", "optional", "required")
_JSON_TYPES: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}
Fetch = Callable[[str | None], Awaitable[tuple[Sequence[object], str | None]]]
"""Returns the items on a page of a list, and the cursor of the next page."""


class _Member(NamedTuple):
    """A tool or prompt as the server sent it, and its position in the list, from 1."""

    place: int
    value: object

    @property
    def name(self) -> str | None:
        name = as_object(self.value).get("name")
        return name if isinstance(name, str) and name else None


async def offers_of(server: McpServer, client: Client, mask: Callable[[Any], Any]) -> Sequence[Offer]:
    """List the tools and the selected prompts of a server, sorted by name.

    ``mask`` masks credentials in JSON data from the server. Raises ``ToolError`` for endless lists.
    """

    async def tools(cursor: str | None) -> tuple[Sequence[object], str | None]:
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        return members_of(page.tools), page.next_cursor

    async def prompts(cursor: str | None) -> tuple[Sequence[object], str | None]:
        page = await client.list_prompts(cursor=cursor, cache_mode="bypass")
        return members_of(page.prompts), page.next_cursor

    offers: list[Offer] = []
    has_headers = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    for member in await _listed(server, tools, server.tools):
        offers.append(_tool_offer(server, member, mask, has_headers=has_headers))
        await asyncio.sleep(0)  # blocks other tasks for one tool at most, which may have 256 KiB of schemas
    for member in await _listed(server, prompts, server.prompts) if server.prompts else ():
        offers.append(_prompt_offer(server, member, mask))
        await asyncio.sleep(0)
    by_name: dict[str, Offer] = {}
    for offer in offers:
        first = by_name.setdefault(offer.name, offer)
        if first is not offer:
            by_name[offer.name] = offer.with_problems("its server lists another tool with this name")
    return distinct(sorted(by_name.values(), key=lambda offer: offer.name), server.tool_name)


def kept_of(offers: Iterable[Offer]) -> Sequence[Offer]:
    """Return offers for a connection's cache: without their shapes, and without those whose names are too long."""
    return [replace(offer, shape={"name": offer.name}) for offer in offers if len(offer.name) <= _MAX_NAME]


async def _listed(server: McpServer, fetch: Fetch, names: Iterable[str] | None) -> Sequence[_Member]:
    """Return the listed items with these names, or all of them. Raises ``ToolError`` for an endless list."""
    members: list[_Member] = []
    cursors: set[str] = set()
    cursor: str | None = None
    place = 0
    for _ in range(_MAX_PAGES):
        try:
            items, after = await fetch(cursor)
        except MCPError as error:
            if error.error.code == METHOD_NOT_FOUND and cursor is None:
                return ()  # for example, a server with resources only has no tools
            raise
        page = [_Member(number, item) for number, item in enumerate(items, place + 1)]
        place += len(page)
        members += [member for member in page if names is None or member.name in names]
        if len(members) > MAX_TOOLS or after in cursors:
            break
        if after is None:
            return members
        cursors.add(after)
        cursor = after
    raise ToolError(
        f"The MCP server {server.name!r} lists more than {MAX_TOOLS:,} tools, or pages without end.",
        code="too_many_tools",
        status=502,
    )


def unmatched(server: McpServer, offers: Sequence[Offer]) -> list[str]:
    """Return a message for each name in the declaration that the server does not have, or that ``tools`` omits."""
    tools = {offer.name for offer in offers if not offer.name.startswith(PROMPTS)}
    prompts = {offer.name.removeprefix(PROMPTS) for offer in offers if offer.name.startswith(PROMPTS)}
    chosen = {*(server.tools or ()), *(f"{PROMPTS}{prompt}" for prompt in server.prompts)}
    rule_names = {EVERY, *named(server, offers), *chosen}
    sentences = [_unmatched_rule(server, name, tools) for name in sorted({*server.rules} - rule_names)]
    sentences += [f"tools: {unknown('tool', name, tools)}" for name in sorted({*(server.tools or ())} - tools)]
    return sentences + [f"prompts: {unknown('prompt', name, prompts)}" for name in sorted({*server.prompts} - prompts)]


def named(server: McpServer, offers: Iterable[Offer]) -> set[str]:
    """Return the names that rules may use, including ``resources/read`` if the server has that tool."""
    return {*((READ,) if server.resources else ()), *(offer.name for offer in offers)}


def _unmatched_rule(server: McpServer, name: str, tools: Iterable[str]) -> str:
    """Return what is wrong with the name of a rule that matches no selected tool or prompt."""
    return misnamed_rule(server, name) or f"rules: {unknown('tool', name, tools)}"


def is_used(server: McpServer, shape: Mapping[str, Any]) -> bool:
    """Return whether the declaration selects a tool or a prompt."""
    if shape.get("kind") == PROMPT:
        return shape["name"].removeprefix(PROMPTS) in server.prompts
    return server.tools is None or shape["name"] in server.tools


def _tool_offer(server: McpServer, member: _Member, mask: Callable[[Any], Any], *, has_headers: bool) -> Offer:
    """Return the offer of a tool, with its problems.

    Members that a call needs must be valid: the name, and schemas that are objects. Other members that are null or
    mistyped are omitted. ``has_headers`` says whether arguments may be repeated in headers.
    """
    if (name := member.name) is None:
        is_object = isinstance(member.value, dict)
        problem = "it has no name" if is_object else f"it must be an object; got {_type_of(member.value)}"
        return unusable(f"tool {member.place} of the list", problem)
    if len(name) > _MAX_NAME:
        return unusable(name, f"its name has {len(name):,} characters, more than {_MAX_NAME}")
    members = as_object(member.value)
    shape: dict[str, Any] = {"name": name, **_texts(members)}
    if members.get("inputSchema") is None:
        return unusable(name, "it has no inputSchema: nothing says which arguments it takes")
    for key in ("inputSchema", "outputSchema"):
        if (schema := members.get(key)) is None:
            continue
        if not isinstance(schema, dict):
            return unusable(name, f"its {key} must be an object; got {_type_of(schema)}")
        shape[key] = members[key]
    types = shape["inputSchema"].get("type")
    if isinstance(types, list) and "object" in cast("list[object]", types):  # arguments are always an object
        shape["inputSchema"] = {**shape["inputSchema"], "type": "object"}
    shape |= _annotations(members)
    local_name = server.tool_name(name)
    offer = examined(name, local_name, mask(shape), ignores_word_order=server.ignore_word_order)
    if has_headers and (problem := find_invalid_x_mcp_header(shape["inputSchema"])) is not None:
        offer = offer.with_problems(f"an argument names a header that cannot be sent: {shown(mask(problem))}")
    if server.resources and local_name == server.tool_name(READ):
        offer = offer.with_problems(f"its name here would be {local_name}, the name of the tool that reads resources")
    return offer


def _annotations(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the well-formed members of a tool other than its texts and schemas."""
    shape: dict[str, Any] = {}
    if isinstance(members.get("annotations"), dict):
        hints = as_object(members["annotations"]).items()
        shape["annotations"] = {
            key: hint
            for key, hint in hints
            if (key in _HINTS and isinstance(hint, bool)) or (key == "title" and isinstance(hint, str))
        }
    if (task_support := as_object(members.get("execution")).get("taskSupport")) in _TASK_SUPPORT:
        shape["execution"] = {"taskSupport": task_support}
    if isinstance(members.get("_meta"), dict):
        shape["_meta"] = members["_meta"]
    return shape


def _prompt_offer(server: McpServer, member: _Member, mask: Callable[[Any], Any]) -> Offer:
    """Return the offer of a selected prompt, with its problems: a tool ``prompts/NAME`` that reads."""
    members = as_object(member.value)
    name = f"{PROMPTS}{member.name}"
    arguments = members.get("arguments")
    if not isinstance(arguments, list | None):
        return unusable(name, f"its arguments must be a list; got {_type_of(arguments)}")
    properties: dict[str, Any] = {}
    required: list[str] = []
    for place, value in enumerate(cast("list[object]", arguments or []), 1):
        argument = _Member(place, value)
        if argument.name is None:
            return unusable(name, f"its argument {place} has no name")
        if argument.name in properties:
            return unusable(name, "two of its arguments have the same name")
        properties[argument.name] = {"type": "string", **_texts(as_object(value))}
        if as_object(value).get("required") is True:
            required.append(argument.name)
    shape: dict[str, Any] = {
        "kind": PROMPT,
        "name": name,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": sorted(required),
            "additionalProperties": False,
        },
        **_texts(members),
    }
    return examined(name, server.tool_name(name), mask(shape), ignores_word_order=server.ignore_word_order)


def _texts(members: Mapping[str, Any]) -> dict[str, Any]:
    return {key: text for key in _TEXTS if isinstance(text := members.get(key), str)}


def _type_of(value: object) -> str:
    return _JSON_TYPES[type(value)]
