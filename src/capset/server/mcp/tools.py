"""``tools/list`` and ``tools/call``: the tools in play as MCP shows them, and calls of them."""

from __future__ import annotations

from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as McpTool

from capset.composition.installation import Installed
from capset.definitions.messages import Message
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.options import Effect
from capset.errors import CapsetError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.hashes import tool_hash
from capset.server.mcp.calls import PREFIX, Ended, Report, error_text, hashes, meta_of, question_in, run
from capset.server.mcp.contents import gives_content, show
from capset.server.mcp.exchanges import Exchange
from capset.server.mcp.offers import freshness
from capset.server.mcp.questions import McpClient
from capset.wire.errors import error_shape

WRAPPED: Final = "result"
"""The single field of the object that wraps an output that is not an object."""

_HINTS: Final[dict[Effect, ToolAnnotations]] = {
    "read": ToolAnnotations(read_only_hint=True),
    "write": ToolAnnotations(read_only_hint=False, destructive_hint=False),
    "external": ToolAnnotations(read_only_hint=False, open_world_hint=True),
    "destructive": ToolAnnotations(read_only_hint=False, destructive_hint=True),
}
"""The hints that an effect guarantees, and no more: MCP's own defaults are the cautious ones."""
_MAY_BE_SILENT: Final = ("stream", "processor")
APPROVAL: Final = f"{PREFIX}approval"
"""The key of ``_meta`` with which a call may name its approved request; an equal call needs none."""


def list_tools(snapshot: Snapshot, exchange: Exchange) -> ListToolsResult:
    """Return the tools in play that the caller may use, by name, all on one page.

    Those who may use single tools can get a credential for more at any moment, so their list does not stay valid.
    """
    tools = [_to_mcp_tool(installed) for name, installed in sorted(snapshot.tools.items()) if exchange.may_use(name)]
    fresh = freshness(snapshot)
    if exchange.tools is not None:
        fresh["ttl_ms"] = 0
    return ListToolsResult(tools=tools, _meta=hashes(snapshot), **fresh)


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


def _to_mcp_tool(installed: Installed) -> McpTool:
    tool = installed.tool
    return McpTool(
        name=installed.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.arguments.json_schema,
        # Content is no structure, and what has a schema must have a structure that fits it.
        output_schema=None if gives_content(tool) else output_schema(tool),
        annotations=_hints(tool),
        _meta={
            f"{PREFIX}capability": installed.owner,
            f"{PREFIX}effect": tool.effect,
            f"{PREFIX}hash": tool_hash(tool),
        },
    )


async def call_tool(
    exchange: Exchange, params: CallToolRequestParams, report: Report, client: McpClient | None = None
) -> CallToolResult | InputRequiredResult:
    """Call a tool, and report its progress. A question to the client is a result too, and so is a refusal."""
    ended = await run(exchange, params.name, params.arguments or {}, report, client, approval=_approval(params))
    if (question := question_in(ended, client)) is not None:
        return question
    return await answer(ended)


def _approval(params: CallToolRequestParams) -> str | None:
    """Return the approval id that the client gives; only the approval service knows whether it is approved."""
    given = (params.meta or {}).get(APPROVAL)
    if given is not None and not isinstance(given, str):
        raise MCPError(INVALID_PARAMS, f"_meta: {APPROVAL} is the id of a request for an approval, a text")
    return given


async def answer(ended: Ended) -> CallToolResult:
    """Return the result of a call that has ended.

    A refusal or a failure is a result too, with ``is_error``: the model reads it, and may correct itself. All results
    are marked as untrusted; text that is too long for a model is cut.
    """
    messages, reply, meta = ended.messages, ended.reply, meta_of(ended)
    if (error := ended.error) is not None:
        meta[f"{PREFIX}error"] = shape = error_shape(error).plain()
        told = await ended.session.for_model(messages.record, error_text(error), after=f"\n{_named(error)}")
        if told.is_cut:
            shape["message"] = told.text
            shape.pop("fields", None)
            meta[f"{PREFIX}file"] = told.file
        return CallToolResult(content=[TextContent(text=told.text)], is_error=True, _meta=meta)
    # Structured content is for programs and stays whole: it must match the tool's output schema, and clients that check
    # it would fail a call whose effects have happened. For a host that passes it to a model, the file shows that the
    # text is the version meant for models.
    structure = None if gives_content(messages.called) else _structured(messages.called, reply)
    if reply is None:
        return CallToolResult(content=[], structured_content=structure, _meta=meta)
    shown = await show(ended.session, messages.record, messages.called, reply.data)
    if shown.is_cut:
        meta[f"{PREFIX}file"] = shown.file
    return CallToolResult(content=shown.blocks, structured_content=structure, _meta=meta)


def _named(error: CapsetError) -> str:
    """Return the suffix of that text: the kind of error, and whether to retry."""
    retry = ["retryable"] if error.retryable else []
    return ", ".join([f"code: {error.code}", f"correlation: {error.correlation}", *retry])


def _structured(tool: AnyTool | None, reply: Message | None) -> dict[str, Any]:
    if tool is not None and not is_wrapped(tool):
        return {} if reply is None else reply.data
    return {} if reply is None else {WRAPPED: reply.data}
