"""What came of a call, as MCP says it: content for the model, structure for programs, ids for whoever asks later."""

from __future__ import annotations

import json
from typing import Any

from mcp_types import CallToolResult, ContentBlock, TextContent

from capset.definitions.messages import Message
from capset.definitions.tools import AnyTool
from capset.errors import CapsetError
from capset.kernel.streaming import Messages
from capset.server.mcp.listing import PREFIX, WRAPPED, hashes, is_wrapped
from capset.wire.errors import error_shape


def answer(ended: Messages, reply: Message | None) -> CallToolResult:
    """Return the result of a call that has ended; ``reply`` is its reply, if it gave one.

    A refusal or a failure is a result too, with ``is_error``: the model reads it, and may do better.
    """
    result = ended.result
    meta = {
        f"{PREFIX}record": ended.record,
        f"{PREFIX}correlation": ended.correlation,
        **hashes(result),
    }
    if (error := result.error) is not None:
        meta[f"{PREFIX}error"] = error_shape(error).plain()
        return CallToolResult(content=[TextContent(text=error_text(error))], is_error=True, _meta=meta)
    content: list[ContentBlock] = [] if reply is None else [TextContent(text=_text(reply.data))]
    return CallToolResult(content=content, structured_content=_structured(ended.called, reply), _meta=meta)


def error_text(error: CapsetError) -> str:
    """Return what a model is told of an error: what is wrong, where, what was perhaps meant, and whether to retry."""
    retry = ["retryable"] if error.retryable else []
    named = [f"code: {error.code}", f"correlation: {error.correlation}", *retry]
    # The kernel's own messages name the fields already.
    fields = [f"- {field}" for field in error.fields if str(field) not in error.message]
    return "\n".join([error.message, *fields, ", ".join(named)])


def _text(data: Any) -> str:  # the tool's own output, as JSON data
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


def _structured(tool: AnyTool | None, reply: Message | None) -> dict[str, Any]:
    if tool is not None and not is_wrapped(tool):
        return {} if reply is None else reply.data
    return {} if reply is None else {WRAPPED: reply.data}
