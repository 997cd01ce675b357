"""``tools/list`` and ``tools/call``: the tools in play as MCP tools, and calls of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    ToolAnnotations,
    ToolExecution,
)
from mcp_types import Tool as McpTool
from pydantic import BaseModel, ValidationError
from typing_extensions import TypeVar

from capset.composition.installation import InstalledTool
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.options import Effect
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.hashes import tool_hash
from capset_server.mcp.approvals import until_approved
from capset_server.mcp.calls import PREFIX, Ended, Report, hashes, question_in, run
from capset_server.mcp.contents import gives_content
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.offers import freshness
from capset_server.mcp.questions import McpClient
from capset_server.mcp.results import WRAPPED, answer, is_declared, is_wrapped, may_be_silent
from capset_server.mcp.tasks import Tasks

_HINTS: Final[dict[Effect, ToolAnnotations]] = {
    "read": ToolAnnotations(read_only_hint=True),
    "write": ToolAnnotations(read_only_hint=False, destructive_hint=False),
    "external": ToolAnnotations(read_only_hint=False, open_world_hint=True),
    "destructive": ToolAnnotations(read_only_hint=False, destructive_hint=True),
}
"""Only the hints that an effect guarantees: MCP's own defaults are the cautious ones."""
M = TypeVar("M", bound=BaseModel)
APPROVAL: Final = f"{PREFIX}approval"
"""The key of ``_meta`` with which a call may name its approved request; an equal call does not need it."""


def list_tools(snapshot: Snapshot, exchange: Exchange) -> ListToolsResult:
    """Return the tools in play that the caller may use, by name, all on one page.

    A caller limited to single tools may get a credential for more at any time, so its list must not be cached.
    """
    tools = [_to_mcp_tool(installed) for _, installed in sorted(snapshot.tools.items()) if exchange.may_use(installed)]
    fresh = freshness(snapshot)
    if exchange.tools is not None:
        fresh["ttl_ms"] = 0
    return ListToolsResult(tools=tools, _meta=hashes(snapshot), **fresh)


def output_schema(tool: AnyTool) -> dict[str, Any]:  # a JSON Schema holds every JSON type
    """Return the schema of a tool's structured content, always that of an object."""
    schema = tool.output.json_schema
    if not is_wrapped(tool):
        return schema
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer: dict[str, Any] = {"type": "object", "properties": {WRAPPED: inner}, "additionalProperties": False}
    if not may_be_silent(tool):
        outer["required"] = [WRAPPED]
    if "$defs" in schema:
        # References are written from the root, so their targets stay there.
        outer["$defs"] = schema["$defs"]
    return outer


def _annotations(tool: AnyTool) -> ToolAnnotations:
    """Return the annotations of a tool: those of the MCP server that it comes from, else the hints of its effect."""
    hints = _HINTS[tool.effect]
    hints = hints.model_copy(update={"idempotent_hint": True}) if tool.idempotent else hints
    annotations = _from_server(ToolAnnotations, tool, "annotations")
    if annotations is None or annotations.model_fields_set - {"title"}:
        return annotations or hints
    return hints.model_copy(update={"title": annotations.title})


def _from_server(model: type[M], tool: AnyTool, member: str) -> M | None:
    """Return a member of the definition of a tool by its MCP server, if it conforms to the protocol."""
    try:
        return model.model_validate((tool.mcp or {})[member], by_name=False)
    except (KeyError, ValidationError):
        return None


def _to_mcp_tool(installed: InstalledTool) -> McpTool:
    tool = installed.tool
    own_meta: object = (tool.mcp or {}).get("_meta")
    meta: Mapping[str, Any] = cast("Mapping[str, Any]", own_meta) if isinstance(own_meta, Mapping) else {}  # any JSON
    return McpTool(
        name=installed.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.arguments.json_schema,
        # A tool with an output schema must return structured content that matches it.
        output_schema=None if gives_content(tool) or not is_declared(tool) else output_schema(tool),
        annotations=_annotations(tool),
        execution=_from_server(ToolExecution, tool, "execution"),
        _meta={
            **{name: value for name, value in meta.items() if not name.startswith(PREFIX)},
            f"{PREFIX}capability": installed.owner,
            f"{PREFIX}effect": tool.effect,
            f"{PREFIX}hash": tool_hash(tool),
        },
    )


async def call_tool(
    exchange: Exchange,
    params: CallToolRequestParams,
    report: Report,
    client: McpClient | None = None,
    tasks: Tasks | None = None,
) -> CallToolResult | InputRequiredResult | dict[str, Any]:
    """Call a tool, and report its progress. Questions to the client are results too, and so are refusals and tasks."""

    async def call() -> Ended:
        return await run(exchange, params.name, params.arguments or {}, report, client, approval=_approval(params))

    ended = await until_approved(await call(), exchange, client, tasks, call)
    if not isinstance(ended, Ended):
        return ended
    if (question := question_in(ended, client)) is not None:
        return question
    return await answer(ended, exchange.approvals.page)


def _approval(params: CallToolRequestParams) -> str | None:
    """Return the approval id that the client gives; only the approval service knows whether it is approved."""
    approval = (params.meta or {}).get(APPROVAL)
    if approval is not None and not isinstance(approval, str):
        raise MCPError(INVALID_PARAMS, f"_meta: {APPROVAL} must be the id of an approval request (a string)")
    return approval
