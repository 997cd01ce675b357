"""The chosen prompts of a server as tools, each of which gets one from it (spec 7, M21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_types import PromptMessage

from capset.adapters.mcp.connection import McpConnection
from capset.adapters.mcp.contents import content_of
from capset.adapters.mcp.server import PROMPTS, tool_options
from capset.adapters.pins import Guard
from capset.definitions.contents import Content, Text
from capset.definitions.tools.definition import AnyTool, make_tool
from capset.errors import PermissionDenied
from capset.schemas.json_schema import compile_json_schema
from capset.schemas.schema import schema_of


def prompt_tool(connection: McpConnection, guard: Guard, name: str, shape: Mapping[str, Any]) -> AnyTool:
    """Return the tool that gets a prompt, as it was approved."""
    server, key = connection.server, shape["name"]
    there = key.removeprefix(PROMPTS)
    schema = compile_json_schema(f"tool {name!r}: its arguments", shape["inputSchema"])

    async def get(**arguments: str) -> Sequence[Content]:
        if (reason := await guard.verify(name)) is not None:
            raise PermissionDenied(reason)
        return [piece for one in (await connection.prompt(there, arguments)).messages for piece in _pieces(one)]

    return make_tool(
        name,
        shape.get("description") or f"The prompt {there} of the MCP server {server.name}.",
        tool_options(server, key, "read", guard.policy, schema.names),
        arguments=schema,
        output=schema_of(f"tool {name!r}: returns", Sequence[Content], "serialization"),
        parameters=tuple(schema.names),
        shape="async",
        takes_context=False,
        handler=get,
        title=shape.get("title"),
    )


def _pieces(message: PromptMessage) -> Sequence[Content]:
    """Return a message as content. All of it comes from others, so none of it is given as what a model said itself."""
    piece = content_of(message.content)
    return [Text(text="The assistant answered:"), piece] if message.role == "assistant" else [piece]
