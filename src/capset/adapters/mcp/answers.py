"""Answers of MCP servers to calls: results, or the errors that the SDK would raise (spec 7, M17)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, cast

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolResult,
    InputRequiredResult,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from mcp_types.methods import validate_server_result
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

VERSION: Final = "2026-07-28"
METHOD: Final = "tools/call"
_MEMBERS: Final = frozenset({"jsonrpc", "id", "result"})
_RESULT: Final = frozenset({"_meta", "content", "isError", "resultType", "structuredContent"})
_TEXT: Final = frozenset({"type", "text"})


class ToolAnswer(NamedTuple):
    """The result of a call: whether it is an error, its content as MCP writes it, and its structure."""

    is_error: bool
    content: Sequence[Mapping[str, Any]]  # JSON
    structured: Any  # JSON


def answer_of(result: CallToolResult) -> ToolAnswer:
    """Return a result of the SDK's."""
    content = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in result.content]
    return ToolAnswer(result.is_error, content, result.structured_content)


def read_plain(body: bytes, number: int) -> ToolAnswer | None:
    """Return the result in an answer to the request of this number, if it is of plain form: texts, and a structure."""
    try:
        message = from_json(body)
    except ValueError:
        return None
    if not isinstance(message, dict):
        return None
    members = cast("dict[str, Any]", message)
    if members.keys() != _MEMBERS or members["jsonrpc"] != "2.0":
        return None
    given, result = members["id"], members["result"]
    if type(given) is not int or given != number or not isinstance(result, dict):
        return None
    said = cast("dict[str, Any]", result)
    content, is_error = said.get("content"), said.get("isError", False)
    if not (
        said.keys() <= _RESULT
        and said.get("resultType") == "complete"
        and isinstance(is_error, bool)
        and isinstance(said.get("_meta", {}), dict)
        and isinstance(content, list)
        and all(map(_is_text, cast("list[object]", content)))
    ):
        return None
    return ToolAnswer(is_error, cast("list[dict[str, Any]]", content), said.get("structuredContent"))


def _is_text(one: object) -> bool:
    if not isinstance(one, dict):
        return False
    members = cast("dict[str, Any]", one)
    return members.keys() == _TEXT and members["type"] == "text" and isinstance(members["text"], str)


def read_message(text: bytes | str, kind: str) -> JSONRPCMessage:
    """Return a message. Raises ``MCPError`` for what is none; ``kind`` says what was to have one."""
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError as error:
        raise MCPError(PARSE_ERROR, f"Failed to parse {kind}: {error}") from None


def error_in(message: JSONRPCError) -> MCPError:
    """Return the error that a message is."""
    return MCPError(message.error.code, message.error.message, message.error.data)


def outcome_of(message: JSONRPCMessage, number: int | None = None) -> ToolAnswer | InputRequiredResult:
    """Return the result in a response, to the request of this number if it is given.

    Raises ``MCPError`` for an error and for anything else, ``ValidationError`` for a result that is none.
    """
    if not isinstance(message, JSONRPCResponse | JSONRPCError) or number not in (None, message.id):
        raise MCPError(INVALID_REQUEST, "The answer is no response to the call.")
    if isinstance(message, JSONRPCError):
        raise error_in(message)
    validate_server_result(METHOD, VERSION, message.result)
    result = result_types().validate_python(message.result, by_name=False)
    return result if isinstance(result, InputRequiredResult) else answer_of(result)


@cache
def result_types() -> TypeAdapter[CallToolResult | InputRequiredResult]:
    """Return what validates the result of a call."""
    return TypeAdapter(CallToolResult | InputRequiredResult)
