"""The capability of a server: its pinned tools, each of which calls the server, and its resources (spec 7, M1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, Final

from mcp.shared.dispatcher import ProgressFnT

from capset.adapters.mcp.answers import ToolAnswer
from capset.adapters.mcp.connection import McpConnection
from capset.adapters.mcp.offers import PROMPT, is_used
from capset.adapters.mcp.prompts import prompt_tool
from capset.adapters.mcp.resource_tool import resource_context, resource_offers, resource_tool
from capset.adapters.mcp.server import McpServer, tool_options
from capset.adapters.pins import Guard, capability_with, shape_of
from capset.adapters.tool_rules import effect_of, rules_of
from capset.definitions.capabilities import Capability
from capset.definitions.mcp_offers import McpOffer, McpPrompt
from capset.definitions.messages import Progress, Reply
from capset.definitions.model_context import ContextFunction
from capset.definitions.tools.definition import AnyTool, make_tool
from capset.definitions.tools.handlers import without_events
from capset.definitions.tools.options import Effect
from capset.definitions.tools.schema_tools import returns_schema
from capset.errors import PermissionDenied, ToolError
from capset.schemas.json_schema import compile_json_schema
from capset.stores.base.pins import ToolPin

_WAITING: Final = 16
"""How many reports of progress may wait for a listener; more are left out."""


def capability_of(connection: McpConnection, pins: Iterable[ToolPin]) -> Capability:
    """Return the capability of a server with the tools that are pinned. Raises ``DefinitionError`` for damaged pins."""
    server = connection.server
    given = ((pin, shape_of(pin)) for pin in pins)
    used = {server.tool_name(pin.tool): (pin, shape) for pin, shape in given if is_used(server, shape)}
    tools: list[AnyTool] = []
    offers: list[McpOffer] = []
    context: ContextFunction | None = None
    if server.resources:
        reader = resource_tool(connection)
        tools.append(reader)
        offers += resource_offers(server, reader)
        context = resource_context(server, reader)
        used.pop(reader.name, None)
    guard = Guard(server, connection.offers, {name: pin for name, (pin, _) in used.items()}, connection.latest_offers)
    for name, (_, shape) in sorted(used.items()):
        if shape.get("kind") == PROMPT:
            tools.append(prompt_tool(connection, guard, name, shape))
            offers.append(McpPrompt(tools[-1]))
        else:
            tools.append(_tool(connection, guard, name, shape))
    return capability_with(server, tools, offers, context)


def _tool(connection: McpConnection, guard: Guard, name: str, shape: Mapping[str, Any]) -> AnyTool:
    server, there = connection.server, shape["name"]
    owner = f"tool {name!r}"
    schema = compile_json_schema(f"{owner}: its arguments", shape["inputSchema"])
    return make_tool(
        name,
        shape.get("description") or f"The tool {there} of the MCP server {server.name}.",
        tool_options(server, there, effect_in(server, shape), guard.policy, schema.names),
        arguments=schema,
        output=returns_schema(owner, shape.get("outputSchema")),
        parameters=tuple(schema.names),
        shape="stream",
        takes_context=False,
        handler=_handler(connection, guard, name, there, is_structured="outputSchema" in shape),
        title=shape.get("title"),
    )


def effect_in(server: McpServer, shape: Mapping[str, Any]) -> Effect:
    """Return the effect of a tool, or a prompt, of a server that is described so: a prompt only reads."""
    if shape.get("kind") == PROMPT:
        return "read"
    rules = rules_of(server.rules, shape["name"])
    return effect_of(rules.get("effect", "destructive"), shape.get("annotations", {}))


def _handler(
    connection: McpConnection, guard: Guard, name: str, there: str, *, is_structured: bool
) -> Callable[..., AsyncGenerator[Any]]:
    async def call(arguments: dict[str, Any], report: ProgressFnT | None) -> Any:
        if (reason := await guard.verify(name)) is not None:
            raise PermissionDenied(reason)
        return result_of(await connection.call(there, arguments, report), is_structured=is_structured)

    async def streamed(**arguments: Any) -> AsyncGenerator[Progress | Reply[Any]]:
        told: asyncio.Queue[Progress | None] = asyncio.Queue()

        async def report(progress: float, total: float | None, message: str | None) -> None:
            if total and told.qsize() < _WAITING:
                told.put_nowait(Progress(min(1.0, max(0.0, progress / total)), message))

        calling = asyncio.create_task(call(arguments, report))
        calling.add_done_callback(lambda _: told.put_nowait(None))
        try:
            while (progress := await told.get()) is not None:
                yield progress
            yield Reply(await calling)
        finally:
            calling.cancel()
            await asyncio.wait([calling])

    async def unheard(**arguments: Any) -> Any:
        return await call(arguments, None)

    return without_events(streamed, unheard)


def result_of(answer: ToolAnswer, *, is_structured: bool) -> Any:  # JSON of the tool's own shape
    """Return a result as JSON: structured if it is, else its text, or its content as MCP writes it.

    Raises ``ToolError`` for one that is an error.
    """
    texts = [one["text"] for one in answer.content if one["type"] == "text"]
    if answer.is_error:
        raise ToolError("\n".join(texts) or "The MCP server says that the call failed, and not why.", code="failed")
    if is_structured and answer.structured is not None:
        return answer.structured
    return "\n".join(texts) if len(texts) == len(answer.content) else answer.content
