"""``tools/list`` and ``tools/call``: the tools in play as MCP shows them, and calls of them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from anyio import CancelScope
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as McpTool

from capset.composition.installation import Installed
from capset.definitions.messages import Json, Message
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.options import Effect
from capset.errors import CapsetError
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.fingerprint.hashes import tool_hash
from capset.kernel.call.session import Session
from capset.kernel.results import Result
from capset.kernel.streams.messages import Messages
from capset.server.mcp.exchanges import Exchange
from capset.wire.calls import progress_of
from capset.wire.errors import error_shape

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
_MAY_BE_SILENT: Final = ("stream", "processor")
Report = Callable[[float, float | None, str | None], Awaitable[None]]
"""A function that sends one progress notification: progress, total, message."""
APPROVAL: Final = f"{PREFIX}approval"
"""The key of ``_meta`` with which a call may name its approved request; an equal call needs none."""


def list_tools(snapshot: Snapshot, may_use: Callable[[str], bool]) -> ListToolsResult:
    """Return the tools in play that the caller may use, by name, all on one page."""
    tools = [_to_mcp_tool(installed) for name, installed in sorted(snapshot.tools.items()) if may_use(name)]
    return ListToolsResult(tools=tools, _meta=hashes(snapshot))


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


def _to_mcp_tool(installed: Installed) -> McpTool:
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


async def call_tool(exchange: Exchange, params: CallToolRequestParams, report: Report) -> CallToolResult:
    """Call a tool, and report its progress. A call that needs an approval is refused, to be made again."""
    session = exchange.session.options(approvals="defer", approval=_approval(params))
    reply: Message | None = None
    told = -1.0
    asked = session.message(params.name, _arguments(params), correlation=exchange.correlation)
    async with _to_its_end(session.invoke(asked)) as messages:
        exchange.notes.update(tool=messages.tool, record=messages.record)
        async for message in messages:
            # Of all events, MCP knows only progress, which must increase with each notification.
            if (said := progress_of(message)) is not None and said.fraction > told:
                told = said.fraction
                await report(told, 1.0, said.message)
            elif message.kind == "reply":
                reply = message
        return await answer(session, messages, reply)


@asynccontextmanager
async def _to_its_end(messages: Messages) -> AsyncGenerator[Messages]:
    """Run a call, and wait for its cleanup and its record even if the request is cancelled.

    The SDK cancels through anyio's scopes, which also cancel every later wait that is not shielded.
    """
    await messages.__aenter__()
    try:
        yield messages
    finally:
        with CancelScope(shield=True):
            await messages.__aexit__(None, None, None)


def _approval(params: CallToolRequestParams) -> str | None:
    """Return the approval id that the client gives; only the approval service knows whether it is approved."""
    given = (params.meta or {}).get(APPROVAL)
    if given is not None and not isinstance(given, str):
        raise MCPError(INVALID_PARAMS, f"_meta: {APPROVAL} is the id of a request for an approval, a text")
    return given


def _arguments(params: CallToolRequestParams) -> Json:
    """Return the arguments as JSON text, close to what arrived: the session validates it.

    Python's encoder writes NaN and lone surrogates in a form that the session refuses and records.
    """
    try:
        return Json(_utf8(params.arguments or {}))
    except RecursionError:
        return Json(b"[" * 1000)


def _utf8(arguments: Mapping[str, Any]) -> bytes:  # JSON data
    try:
        return json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(arguments).encode()


async def answer(session: Session, ended: Messages, reply: Message | None) -> CallToolResult:
    """Return the result of a call that has ended; ``reply`` is its reply, if any.

    A refusal or a failure is a result too, with ``is_error``: the model reads it, and may correct itself. All results
    are marked as untrusted; text that is too long for a model is cut.
    """
    result = ended.result
    meta = {
        f"{PREFIX}record": ended.record,
        f"{PREFIX}correlation": ended.correlation,
        f"{PREFIX}untrusted": True,
        **hashes(result),
    }
    if (error := result.error) is not None:
        meta[f"{PREFIX}error"] = shape = error_shape(error).plain()
        told = await session.for_model(ended.record, _error_text(error), after=f"\n{_named(error)}")
        if told.is_cut:
            shape["message"] = told.text
            shape.pop("fields", None)
            meta[f"{PREFIX}file"] = told.file
        return CallToolResult(content=[TextContent(text=told.text)], is_error=True, _meta=meta)
    # Structured content is for programs and stays whole: it must match the tool's output schema, and clients that check
    # it would fail a call whose effects have happened. For a host that passes it to a model, the file shows that the
    # text is the version meant for models.
    structure = _structured(ended.called, reply)
    if reply is None:
        return CallToolResult(content=[], structured_content=structure, _meta=meta)
    told = await session.for_model(ended.record, reply.data)
    if told.is_cut:
        meta[f"{PREFIX}file"] = told.file
    return CallToolResult(content=[TextContent(text=told.text)], structured_content=structure, _meta=meta)


def _error_text(error: CapsetError) -> str:
    """Return the text of an error for a model: the message, the fields, and suggestions."""
    # The kernel's own messages already name the fields.
    return "\n".join([error.message, *(f"- {field}" for field in error.fields if str(field) not in error.message)])


def _named(error: CapsetError) -> str:
    """Return the suffix of that text: the kind of error, and whether to retry."""
    retry = ["retryable"] if error.retryable else []
    return ", ".join([f"code: {error.code}", f"correlation: {error.correlation}", *retry])


def _structured(tool: AnyTool | None, reply: Message | None) -> dict[str, Any]:
    if tool is not None and not is_wrapped(tool):
        return {} if reply is None else reply.data
    return {} if reply is None else {WRAPPED: reply.data}
