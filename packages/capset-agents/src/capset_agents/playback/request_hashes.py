"""The hashes of a request to a model: of its instructions, tools, settings and conversation (extra ``agent``)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    SystemPromptPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_core import from_json, to_jsonable_python

from capset.fingerprint.canonical import canonical, digest

_VOLATILE: Final = re.compile(
    r"(?P<id>(?<![0-9a-f-])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f-]))"
    r"|(?<![0-9])[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])"
    r"(?:[t ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:z|[+-][0-9]{2}:?[0-9]{2})?)?",
    re.IGNORECASE,
)
"""UUIDs, and ISO 8601 dates and times, which differ in every run."""
_HASHED_FIELDS: Final = ("part_kind", "content", "tool_name", "tool_call_id", "args", "outcome")
"""The members of a part that are hashed. All others are times, run ids and metadata that no model reads."""
_TRANSPORT_SETTINGS: Final = frozenset(
    {"extra_headers", "timeout", "request_timeout", "first_event_timeout", "max_retries"}
)
"""Connection settings, which no model reads. Headers may contain keys."""


class ConversationHash(BaseModel):
    """The hash of a conversation, and how many messages it has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    messages: int
    hash: str


class RequestHashes(BaseModel):
    """The SHA-256 of each part of a request, in lower-case hexadecimal. Tools and settings are keyed by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    instructions: str
    tools: dict[str, str]
    settings: dict[str, str]
    conversation: ConversationHash


@dataclass(frozen=True, slots=True)
class HashedRequest:
    """A request as it is compared: its hashes, those of each prefix of its conversation, and its contents.

    ``prefix_hashes[n - 1]`` is the hash of the first ``n`` messages, ``contents[n - 1]`` the parts of message ``n``.
    """

    hashes: RequestHashes
    prefix_hashes: Sequence[str]
    contents: Sequence[Sequence[str]]

    def continues(self, other: ConversationHash) -> bool:
        """Return whether the conversation begins with ``other`` and is longer."""
        return other.messages < len(self.prefix_hashes) and self.prefix_hashes[other.messages - 1] == other.hash


def hash_request(
    messages: Sequence[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
) -> HashedRequest:
    """Return the hashes of a request.

    Equal requests of two runs have equal hashes: times, run ids and the order of keys make no difference. In texts, all
    dates and times count as equal, and UUIDs are numbered in order of appearance.
    """
    hashes, ids = list[str](), dict[str, str]()
    system = list[str]()
    dumped = from_json(ModelMessagesTypeAdapter.dump_json([*messages]))
    for message, data in zip(messages, dumped, strict=True):
        system += [part.content for part in message.parts if isinstance(part, SystemPromptPart)]
        parts = [_part(part) for part in data["parts"] if part["part_kind"] != "system-prompt"]
        hashes.append(_hash([hashes[-1:], message.kind, parts], ids))
    return HashedRequest(
        RequestHashes(
            instructions=_hash([_instructions(messages, parameters), system]),
            tools=_tools(parameters),
            settings={
                name: _hash(to_jsonable_python(value, fallback=_type_name))
                for name, value in (settings or {}).items()
                if name not in _TRANSPORT_SETTINGS
            },
            conversation=ConversationHash(messages=len(hashes), hash=hashes[-1] if hashes else ""),
        ),
        hashes,
        [_contents(message) for message in messages],
    )


def find_changes(before: RequestHashes, after: RequestHashes) -> list[str]:
    """Return a note for each part that differs, with the names of changed tools and settings."""
    changes: list[str] = []
    if before.instructions != after.instructions:
        changes.append("the instructions changed")
    if before.tools != after.tools:
        changes.append(f"the tools changed ({_describe_changes(before.tools, after.tools)})")
    if before.settings != after.settings:
        changes.append(f"the settings changed ({_describe_changes(before.settings, after.settings)})")
    if before.conversation != after.conversation:
        changes.append("the conversation changed")
    return changes


def _describe_changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    return ", ".join(
        f"{name} {'is new' if name not in before else 'is gone' if name not in after else 'changed'}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


def _hash(payload: Any, ids: dict[str, str] | None = None) -> str:  # payload is any JSON
    """Return the hash of a payload. ``ids`` maps the UUIDs so far to their placeholders."""
    numbers = {} if ids is None else ids

    def masked(match: re.Match[str]) -> str:
        if (identifier := match["id"]) is None:
            return "<time>"
        return numbers.setdefault(identifier.lower(), f"<id {len(numbers) + 1}>")

    return digest(_VOLATILE.sub(masked, canonical(payload).decode()))


def _instructions(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> list[str]:
    if parameters.instruction_parts is not None:
        return [part.content for part in parameters.instruction_parts]
    last = messages[-1] if messages else None
    return [last.instructions] if isinstance(last, ModelRequest) and last.instructions else []


def _tools(parameters: ModelRequestParameters) -> dict[str, str]:
    hashes = {tool.name: digest(_tool(tool)) for tool in (*parameters.function_tools, *parameters.output_tools)}
    # The provider's own tools have no schema, and their options may contain keys.
    hashes |= {f"provider:{tool.unique_id}": digest(tool.kind) for tool in parameters.native_tools}
    if (output := parameters.output_object) is not None:
        hashes["(output)"] = digest([output.name, output.description, output.json_schema])
    return hashes


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    returns = tool.return_schema if tool.include_return_schema else None
    return {"description": tool.description, "parameters": tool.parameters_json_schema, "returns": returns}


def _part(data: Mapping[str, Any]) -> dict[str, Any]:
    part = {name: data[name] for name in _HASHED_FIELDS if data.get(name) is not None}
    if isinstance(arguments := part.get("args"), str):
        with contextlib.suppress(ValueError):  # arguments that are not JSON are hashed as text
            part["args"] = from_json(arguments, allow_inf_nan=False)
    return part


def _contents(message: ModelMessage) -> list[str]:
    return [
        f"the result of {part.tool_name}" if isinstance(part, ToolReturnPart) else "the prompt"
        for part in message.parts
        if isinstance(part, ToolReturnPart | UserPromptPart)
    ]


def _type_name(value: object) -> str:
    return type(value).__qualname__
