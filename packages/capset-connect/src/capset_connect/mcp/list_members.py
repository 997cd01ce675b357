"""Lists and handshakes of MCP servers, so that one malformed member costs itself alone (spec 7, M92).

The SDK's models refuse a whole answer for one member that is not as they have it. So the SDK gets only what it needs to
know of each tool and prompt; what the server sent of it stands under ``MEMBER`` in its ``_meta``.
"""

from __future__ import annotations

from typing import Any, Final, cast

from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp_types import Prompt, Tool

MEMBER: Final = "capset/member"


def members_of(items: list[Tool] | list[Prompt]) -> list[object]:
    """Return the members of a list as their server sent them."""
    return [(item.meta or {}).get(MEMBER) for item in items]


def readable_result(result: dict[str, Any]) -> dict[str, Any]:  # JSON
    """Return a list or a handshake as the SDK can read it; any other result as it is.

    Members about the answer itself that are null or mistyped count as left out. A list that is no list at all is left
    to the SDK, which refuses it.
    """
    for kind, read in (("tools", _readable_tool), ("prompts", _readable_prompt)):
        members = result.get(kind, "")
        if members is None:  # so a list without members is written by some servers in Go
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
    """Return a result without members about itself that are null or mistyped; an empty cursor is the end of a list."""
    readable = {**result, "ttlMs": 0, "cacheScope": "private"}  # capset asks again when it has to
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
    """Return a tool with its name, and with its arguments only if some of them are repeated in headers."""
    schema = as_object(as_object(member).get("inputSchema"))
    properties: dict[str, Any] = {}
    if find_invalid_x_mcp_header(schema) is None and x_mcp_header_map(schema):
        properties = {name: value for name, value in schema["properties"].items() if isinstance(value, dict)}
    return {**_readable_prompt(member), "inputSchema": {"type": "object", "properties": properties}}


def _readable_prompt(member: object) -> dict[str, Any]:
    return {"name": "", **_texts_in(member, "name"), "_meta": {MEMBER: member}}


def as_object(value: object) -> dict[str, Any]:
    """Return an object of JSON as it is, and an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _texts_in(value: object, *names: str) -> dict[str, str]:
    """Return those of the named members of an object that are texts."""
    members = as_object(value)
    return {name: text for name in names if isinstance(text := members.get(name), str)}
