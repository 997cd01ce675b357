"""Responses of MCP servers to tool calls (spec 7, M17, M96).

A result is parsed member by member, because its call may have had its effect: members that violate the protocol are
reported together with the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from mcp_types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from pydantic import ValidationError

from capset.definitions.calls.contents import ABSENT
from capset.schemas.strict_json import copy_json
from capset.schemas.validation_errors import SchemaMismatch, dotted_path

VERSION: Final = "2026-07-28"
METHOD: Final = "tools/call"
RAW: Final = "dev.capset/raw"
"""The metadata key under which an SDK result carries the result as the server sent it."""
UNREADABLE: Final = object()
"""The ``data`` of the error that replaces an unreadable response. No server can send this object."""
_BLOCKS: Final[Mapping[str, type[ContentBlock]]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "resource": EmbeddedResource,
    "resource_link": ResourceLink,
}


class ToolAnswer(NamedTuple):
    """The result of a call, as JSON: whether it is an error, its MCP content blocks, and its structured content.

    ``misfits`` lists violations of the protocol, each with its path and what was expected.
    """

    is_error: bool
    content: Sequence[Mapping[str, Any]]
    structured: Any = ABSENT
    meta: Mapping[str, Any] = {}
    misfits: Sequence[str] = ()


def answer_in(result: Mapping[str, Any]) -> ToolAnswer:
    """Parse a result as the server sent it."""
    misfits: list[str] = []
    structured, is_error = ABSENT, result.get("isError", False)
    if is_error not in (True, False, "true"):
        misfits.append("isError: Input should be a valid boolean")
    if result.get("resultType", "complete") != "complete":
        misfits.append("resultType: Input should be 'complete'")
    if "structuredContent" in result:
        try:
            structured = copy_json(result["structuredContent"], ("structuredContent",))
        except SchemaMismatch as error:
            misfits.append(str(error))
    blocks = result.get("content")
    if isinstance(blocks, list):
        content = [_block(block, number, misfits) for number, block in enumerate(cast("list[Any]", blocks))]
    else:
        misfits.append("content: Input should be a valid list")
        content = [] if structured is not ABSENT else [_text_block(result)]
    if not content and structured is ABSENT and "structuredContent" in result:
        content = [_text_block(result)]
    try:
        meta = copy_json(result.get("_meta"))
    except SchemaMismatch:
        meta = None
    return ToolAnswer(is_error in (True, "true"), content, structured, meta if isinstance(meta, dict) else {}, misfits)


def _block(item: Any, number: int, misfits: list[str]) -> Mapping[str, Any]:  # JSON
    """Return a content block without its invalid members. If it is unusable, return its JSON as a text block."""
    block = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    kind = block.get("type")
    model = _BLOCKS.get(kind) if isinstance(kind, str) else None
    if model is None:
        misfits.append(f"content.{number}: Input should be a block of a known type")
        return _text_block(item)
    if not (wrong := _misfits(model, block)):
        return block
    misfits += [f"content.{number}.{place}: {expected}" for place, expected in wrong.items()]
    members = {place.partition(".")[0] for place in wrong}
    fitting = {name: member for name, member in block.items() if name not in members}
    if kind in ("image", "audio") and "mimeType" in members:
        fitting["mimeType"] = "application/octet-stream"
    return _text_block(item) if _misfits(model, fitting) else fitting


def _misfits(model: type[ContentBlock], block: Mapping[str, Any]) -> dict[str, str]:
    """Return the invalid members of a block: what was expected, by path."""
    try:
        copy_json(block)
        model.model_validate(block, by_name=False)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)
        # In a union, the locations contain class names, which are omitted.
        return {
            dotted_path([part for part in misfit["loc"] if not str(part)[:1].isupper()]): misfit["msg"]
            for misfit in wrong
        }
    except SchemaMismatch as error:
        return {field.path: field.expected for field in error.fields}
    return {}


def _text_block(value: Any) -> Mapping[str, Any]:  # JSON
    return {"type": "text", "text": json.dumps(value, ensure_ascii=False)}


def error_text(answer: ToolAnswer) -> str:
    """Return the message of an error result: the text of its blocks, or its structured content as JSON."""
    texts = [text for block in answer.content if (text := _text_in(block)) is not None]
    if not texts and answer.structured not in (ABSENT, None):
        texts = [json.dumps(answer.structured, ensure_ascii=False)]
    return "\n".join(texts) or "The MCP server reported that the call failed, without a reason."


def _text_in(block: Mapping[str, Any]) -> str | None:
    match block:
        case {"type": "text", "text": str(text)} | {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case _:
            return None


def answer_of(result: CallToolResult) -> ToolAnswer:
    """Parse a result of the SDK, in its original form if the SDK result carries it."""
    raw: Mapping[str, Any] | None = (result.meta or {}).get(RAW)
    return answer_in(raw or result.model_dump(mode="json", by_alias=True, exclude_unset=True))


def is_question(result: Mapping[str, Any]) -> bool:
    """Return whether a server requests input instead of returning a final result."""
    return result.get("resultType") == "input_required"
