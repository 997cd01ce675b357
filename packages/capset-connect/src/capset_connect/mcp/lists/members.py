"""Lenient lists and handshakes of MCP servers: a malformed member does not affect the others (spec 7, M92).

The SDK's models refuse a whole response for one invalid member. So the SDK gets only the members of each tool and
prompt that it needs; the original is under ``MEMBER`` in its ``_meta``.
"""

from __future__ import annotations

from typing import Any, Final, cast

from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp_types import Prompt, Tool

MEMBER: Final = "capset/member"


def members_of(items: list[Tool] | list[Prompt]) -> list[object]:
    """Return the items of a list as the server sent them."""
    return [(item.meta or {}).get(MEMBER) for item in items]


def readable_result(result: dict[str, Any]) -> dict[str, Any]:  # JSON
    """Return a list or a handshake in a form that the SDK can read; return other results unchanged.

    Members of the result itself that are null or mistyped are omitted. A value that is not a list is left to the SDK,
    which refuses it.
    """
    for kind, read in (("tools", _readable_tool), ("prompts", _readable_prompt)):
        members = result.get(kind, "")
        if members is None:  # some Go servers send null for an empty list
            members = []
        if isinstance(members, list):
            return {**_without_mistyped(result), kind: [read(member) for member in cast("list[object]", members)]}
    if "protocolVersion" in result or "supportedVersions" in result:
        capabilities = as_object(result.get("capabilities")).items()
        server_info = {"name": "", "version": "", **_texts_in(result.get("serverInfo"), "name", "version")}
        return {
            **_without_mistyped(result),
            "capabilities": {name: dict[str, Any]() for name, value in capabilities if isinstance(value, dict)},
            "serverInfo": server_info,
        }
    return result


def _without_mistyped(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without null and mistyped members of its own. An empty cursor marks the end of a list."""
    readable = {**result, "ttlMs": 0, "cacheScope": "private"}  # capset decides itself when to list again
    if not isinstance(readable.get("resultType"), str):
        readable["resultType"] = "complete"
    if not isinstance(readable.get("_meta"), dict):
        readable["_meta"] = None
    if not isinstance(readable.get("instructions"), str):
        readable["instructions"] = None
    if readable.get("nextCursor") == "":
        readable["nextCursor"] = None
    return readable


def _readable_tool(member: object) -> dict[str, Any]:
    """Return a tool with its name and, if some of its arguments are repeated in headers, with its arguments."""
    schema = as_object(as_object(member).get("inputSchema"))
    properties: dict[str, Any] = {}
    if find_invalid_x_mcp_header(schema) is None and x_mcp_header_map(schema):
        properties = {name: value for name, value in schema["properties"].items() if isinstance(value, dict)}
    return {**_readable_prompt(member), "inputSchema": {"type": "object", "properties": properties}}


def _readable_prompt(member: object) -> dict[str, Any]:
    return {"name": "", **_texts_in(member, "name"), "_meta": {MEMBER: member}}


def as_object(value: object) -> dict[str, Any]:
    """Return a JSON object unchanged, or an empty one for any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _texts_in(value: object, *names: str) -> dict[str, str]:
    """Return the named members of an object that are strings."""
    members = as_object(value)
    return {name: text for name in names if isinstance(text := members.get(name), str)}
