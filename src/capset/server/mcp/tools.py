"""The tools in play as MCP shows them: schemas, hints, hashes."""

from __future__ import annotations

from typing import Any, Final

from mcp_types import ListToolsResult, ToolAnnotations
from mcp_types import Tool as McpTool

from capset.composition.installation import Installed
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.options import Effect
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.hashes import tool_hash
from capset.kernel.results import Result

PREFIX: Final = "dev.capset/"
"""The prefix of every ``_meta`` key of capset's."""
WRAPPED: Final = "result"
"""The single field of the object that wraps an output that is not an object."""

_HINTS: Final[dict[Effect, ToolAnnotations]] = {
    "read": ToolAnnotations(read_only_hint=True),
    "write": ToolAnnotations(read_only_hint=False, destructive_hint=False),
    "external": ToolAnnotations(read_only_hint=False, open_world_hint=True),
    "destructive": ToolAnnotations(read_only_hint=False, destructive_hint=True),
}
"""The hints that an effect guarantees, and no more: MCP's own defaults are the cautious ones."""


def list_tools(snapshot: Snapshot) -> ListToolsResult:
    """Return the tools in play, by name, all on one page."""
    tools = [_shown(installed) for _, installed in sorted(snapshot.tools.items())]
    return ListToolsResult(tools=tools, _meta=hashes(snapshot))


_MAY_BE_SILENT: Final = ("stream", "processor")


def hashes(origin: Snapshot | Result[Any]) -> dict[str, Any]:  # the values of a _meta object may be any JSON
    """Return the hashes of the tools and the prompt behind an answer."""
    return {f"{PREFIX}runtime_hash": origin.runtime_hash, f"{PREFIX}prompt_hash": origin.prompt_hash}


def is_wrapped(tool: AnyTool) -> bool:
    """Return whether a tool's output is wrapped in ``result``, in its schema and in every result alike.

    Up to 2025-11-25, MCP accepts only objects. A streaming tool may also end without an output, validly.
    """
    return tool.shape in _MAY_BE_SILENT or tool.output.json_schema.get("type") != "object"


def output_schema(tool: AnyTool) -> dict[str, Any]:  # a JSON Schema holds every JSON type
    """Return the schema of a tool's structured content, always that of an object."""
    schema = tool.output.json_schema
    if not is_wrapped(tool):
        return schema
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer: dict[str, Any] = {"type": "object", "properties": {WRAPPED: inner}, "additionalProperties": False}
    if tool.shape not in _MAY_BE_SILENT:
        outer["required"] = [WRAPPED]
    if "$defs" in schema:
        # References are written from the root, so their targets stay there.
        outer["$defs"] = schema["$defs"]
    return outer


def _hints(tool: AnyTool) -> ToolAnnotations:
    hints = _HINTS[tool.effect]
    return hints.model_copy(update={"idempotent_hint": True}) if tool.idempotent else hints


def _shown(installed: Installed) -> McpTool:
    tool = installed.tool
    return McpTool(
        name=installed.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.arguments.json_schema,
        output_schema=output_schema(tool),
        annotations=_hints(tool),
        _meta={
            f"{PREFIX}capability": installed.owner,
            f"{PREFIX}effect": tool.effect,
            f"{PREFIX}hash": tool_hash(tool),
        },
    )
