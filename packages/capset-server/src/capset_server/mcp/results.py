"""Results of tool calls: content, structured content, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mcp_types import CallToolResult, TextContent

from capset.definitions.calls.contents import ABSENT, ForeignResult
from capset.definitions.calls.messages import Message
from capset.definitions.tools.definition import AnyTool
from capset.definitions.tools.handlers import has_eventless_variant
from capset.errors import CapsetError, ConnectionRequired, ToolError
from capset.wire.errors import error_shape
from capset_server.mcp.calls import PREFIX, Ended, error_text, meta_of
from capset_server.mcp.contents import gives_content, show, show_foreign

WRAPPED: Final = "result"
"""The single field of the object that wraps an output that is not an object."""
NOTE: Final = f"{PREFIX}note"
"""The key of ``_meta`` for a note on how a result deviates from what its tool declares."""
_OF_CONNECTIONS: Final = (PREFIX, "io.modelcontextprotocol/")
"""The prefixes of ``_meta`` keys that are about a connection, not about a result."""
_SILENT: Final = ("stream", "processor")


def is_wrapped(tool: AnyTool) -> bool:
    """Return whether a tool's output is wrapped in ``result``, both in its schema and in every result.

    Up to revision 2025-11-25, MCP accepts only objects. A streaming tool may also validly end without an output.
    """
    return may_be_silent(tool) or tool.output.json_schema.get("type") != "object"


def may_be_silent(tool: AnyTool) -> bool:
    """Return whether a tool may validly end without an output."""
    return tool.shape in _SILENT and not has_eventless_variant(tool.handler)


async def answer(ended: Ended, page: Callable[[CapsetError], str | None] = lambda error: None) -> CallToolResult:
    """Return the result of a call that has ended.

    A refusal or a failure is a result too, with ``is_error``, so that the model can read it and correct itself. All
    results are marked as untrusted; text that is too long for a model is truncated. ``page`` returns the URL of the
    page where what a call waits for is decided or connected; the result includes it.
    """
    messages, reply, meta = ended.messages, ended.reply, meta_of(ended)
    error, foreign = ended.error, messages.result.foreign
    if foreign is not None and foreign.blocks is not None and (error is None or _is_own(foreign, error)):
        return await _pass_on(ended, foreign, meta)
    if error is not None:
        meta[f"{PREFIX}error"] = shape = error_shape(error).plain()
        text = error_text(error)
        if (url := page(error)) is not None:
            meta[f"{PREFIX}approval_url"] = url
            text += f"\nIt is {'connected' if isinstance(error, ConnectionRequired) else 'decided'} at {url}"
        rendered_error = await ended.session.for_model(messages.record, text, after=f"\n{_named(error)}")
        if rendered_error.is_cut:
            shape["message"] = rendered_error.text
            shape.pop("fields", None)
            meta[f"{PREFIX}file"] = rendered_error.file
        return CallToolResult(content=[TextContent(text=rendered_error.text)], is_error=True, _meta=meta)
    # Structured content is for programs and stays whole: it must match the tool's output schema, and clients that check
    # it would fail a call whose effects have happened. For a host that passes it to a model, the file shows that the
    # text is the version meant for models.
    structure = None if gives_content(messages.called) else _structured(messages.called, reply)
    if reply is None:
        return CallToolResult(content=[], structured_content=structure, _meta=meta)
    rendered = await show(ended.session, messages.record, messages.result.content, reply.data)
    if rendered.is_cut:
        meta[f"{PREFIX}file"] = rendered.file
    if foreign is not None and foreign.note is not None:
        meta[NOTE] = foreign.note
    return CallToolResult(content=rendered.blocks, structured_content=structure, _meta=meta)


async def _pass_on(ended: Ended, foreign: ForeignResult, meta: dict[str, Any]) -> CallToolResult:
    """Return the result of an upstream MCP server unchanged, with the metadata of this call added to its own.

    A result that does not match the output schema of its tool is marked as an error, though the call succeeded: clients
    that check results would discard it, and tell their model that the call failed. A note explains that.
    """
    blocks, error = [*(foreign.blocks or ())], ended.error
    if error is not None:
        meta[f"{PREFIX}error"] = error_shape(error).plain()
        if not blocks:
            blocks.append({"type": "text", "text": error_text(error)})
    if foreign.note is not None:
        meta[NOTE] = foreign.note
        blocks.append({"type": "text", "text": f"[{foreign.note}]"})
    rendered = await show_foreign(ended.session, ended.messages.record, blocks)
    if rendered.is_cut:
        meta[f"{PREFIX}file"] = rendered.file
        if error is not None:
            meta[f"{PREFIX}error"] |= {"message": "The text of the error is cut; the file has all of it."}
    tool = ended.messages.called
    structure: dict[str, Any] | None = None
    if foreign.structured is not ABSENT:
        is_object = isinstance(foreign.structured, dict | None)
        is_wrapped_there = tool is not None and is_declared(tool) and is_wrapped(tool)
        structure = {WRAPPED: foreign.structured} if is_wrapped_there or not is_object else foreign.structured
    own_meta = {name: value for name, value in foreign.meta.items() if not name.startswith(_OF_CONNECTIONS)}
    is_error = error is not None or not foreign.fits_schema
    return CallToolResult(
        content=rendered.blocks, structured_content=structure, is_error=is_error, _meta={**own_meta, **meta}
    )


def _is_own(foreign: ForeignResult, error: CapsetError) -> bool:
    """Return whether an error is the one that the upstream server returned, rather than a later one of capset's."""
    return foreign.error is not None and type(error) is ToolError and error.code == foreign.error.code


def is_declared(tool: AnyTool) -> bool:
    """Return whether the author of a tool has declared its output schema: not every MCP server does."""
    return tool.mcp is None or "outputSchema" in tool.mcp


def _named(error: CapsetError) -> str:
    """Return the suffix of an error's text: its code and correlation id, and whether to retry."""
    retry = ["retryable"] if error.retryable else []
    return ", ".join([f"code: {error.code}", f"correlation: {error.correlation}", *retry])


def _structured(tool: AnyTool | None, reply: Message | None) -> dict[str, Any]:
    if tool is not None and not is_wrapped(tool):
        return {} if reply is None else reply.data
    return {} if reply is None else {WRAPPED: reply.data}
