"""What came of a call, as MCP says it: content for the model, structure for programs, ids for whoever asks later."""

from __future__ import annotations

from typing import Any, Final

from mcp_types import CallToolResult, TextContent

from capset.definitions.messages import Message
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapsetError
from capset.kernel.call.session import Session
from capset.kernel.streams.messages import Messages
from capset.server.mcp.listing import PREFIX, WRAPPED, hashes, is_wrapped
from capset.wire.errors import error_shape

APPROVAL: Final = f"{PREFIX}approval"
"""The key of ``_meta`` by which a call may name the request that was approved; an equal call needs none (G18)."""


async def answer(session: Session, ended: Messages, reply: Message | None) -> CallToolResult:
    """Return the result of a call that has ended; ``reply`` is its reply, if it gave one.

    A refusal or a failure is a result too, with ``is_error``: the model reads it, and may do better. All of them are
    marked as untrusted; of what is too long for a model, the text is cut (spec 4, G26).
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
        told = await session.for_model(ended.record, _said(error), after=f"\n{_named(error)}")
        if told.is_cut:
            shape["message"] = told.text
            shape.pop("fields", None)
            meta[f"{PREFIX}file"] = told.file
        return CallToolResult(content=[TextContent(text=told.text)], is_error=True, _meta=meta)
    # Structure is for programs and stays whole: the protocol wants it to fit the tool's output schema, and clients that
    # check it would fail a call that has had its effects. A host that feeds it to a model sees by the file that the
    # text is what was meant for that.
    structure = _structured(ended.called, reply)
    if reply is None:
        return CallToolResult(content=[], structured_content=structure, _meta=meta)
    told = await session.for_model(ended.record, reply.data)
    if told.is_cut:
        meta[f"{PREFIX}file"] = told.file
    return CallToolResult(content=[TextContent(text=told.text)], structured_content=structure, _meta=meta)


def _said(error: CapsetError) -> str:
    """Return what a model is told of an error: what is wrong, where, and what was perhaps meant."""
    # The kernel's own messages name the fields already.
    return "\n".join([error.message, *(f"- {field}" for field in error.fields if str(field) not in error.message)])


def _named(error: CapsetError) -> str:
    """Return what stands behind that: what kind of error it is, and whether to try again."""
    retry = ["retryable"] if error.retryable else []
    return ", ".join([f"code: {error.code}", f"correlation: {error.correlation}", *retry])


def _structured(tool: AnyTool | None, reply: Message | None) -> dict[str, Any]:
    if tool is not None and not is_wrapped(tool):
        return {} if reply is None else reply.data
    return {} if reply is None else {WRAPPED: reply.data}
