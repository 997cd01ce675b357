"""Exports of agents' tools: as tool JSON of OpenAI and Anthropic, and as JSON Schema (spec 8, W24)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from capset.composition.installation import InstalledTool
from capset.definitions.tools.definition import AnyTool
from capset.errors import DefinitionError, unknown
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.schemas.model_schemas import refused_keywords, refused_names
from capset_connect.interop.json_types import mapped_schema

ToolFormat = Literal["openai", "openai-chat", "anthropic"]
"""The formats of OpenAI's Responses API, OpenAI's Chat Completions API, and Anthropic's Messages API."""
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class Export:
    """An exported agent as JSON data. ``left_out`` lists what the format cannot express.

    ``warnings`` list content that consumers of the format refuse, and content that may be confidential.
    """

    content: Any  # JSON data
    left_out: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def checked_format(format: ToolFormat) -> ToolFormat:
    """Return the format. Raises ``DefinitionError`` if it is unknown."""
    if format not in get_args(ToolFormat):
        raise DefinitionError(unknown("format", format, get_args(ToolFormat)))
    return format


def tool_json(format: ToolFormat, name: str, description: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of one tool, whose ``arguments`` are a JSON Schema."""
    if format == "anthropic":
        return {"name": name, "description": description, "input_schema": arguments}
    # Not strict, because strict schemas have no optional arguments; capset validates every call itself.
    members = {"name": name, "description": description, "parameters": arguments, "strict": False}
    return {"type": "function", **members} if format == "openai" else {"type": "function", "function": members}


def export_tools(snapshot: Snapshot, format: ToolFormat, *, names: Mapping[str, str] | None = None) -> Export:
    """Return the tools in play as tool JSON: ``openai`` (Responses), ``openai-chat`` or ``anthropic``.

    ``names`` maps tool names to the names to export, such as the originals in ``ImportedTools.names``. Raises
    ``DefinitionError`` for an unknown format.
    """
    checked_format(format)
    installed = in_order(snapshot)
    content: list[dict[str, Any]] = []
    for entry in installed:
        name = (names or {}).get(entry.name, entry.name)
        # Normalised as by an import, so that importing it again changes nothing.
        arguments = mapped_schema(f"tool {name!r}: its arguments", deepcopy(dict(entry.tool.arguments.json_schema)))
        content.append(tool_json(format, name, entry.tool.description, arguments))
    return Export(content, (*absent(snapshot), *unsaid(snapshot, _UNSAID)), tuple(_refusals(installed)))


def export_json_schema(snapshot: Snapshot) -> Export:
    """Return a JSON Schema for calls, ``{"name", "arguments"}``. ``$defs`` has the schemas of each tool in play.

    The ids of a tool's schemas are ``arguments/NAME`` and ``results/NAME``.
    """
    installed = in_order(snapshot)
    defs: dict[str, Any] = {}
    for entry in installed:
        title = {"title": entry.tool.title} if entry.tool.title is not None else {}
        parts = {"arguments": entry.tool.arguments.json_schema, "results": entry.tool.output.json_schema}
        for kind, schema in parts.items():
            # With an id, it is a separate document, so its references from the root stay valid.
            headings = {**title, "description": entry.tool.description} if kind == "arguments" else {}
            defs[f"{kind}/{entry.name}"] = {**deepcopy(dict(schema)), "$id": f"{kind}/{entry.name}", **headings}
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": target.name}, "arguments": {"$ref": f"arguments/{target.name}"}},
            "required": ["arguments", "name"],
            "additionalProperties": False,
        }
        for target in installed
    ]
    block = snapshot.composition.block
    content = {
        "$schema": DIALECT,
        "title": f"Calls of the tools of {block.name}",
        **({"description": block.description} if block.description.strip() else {}),
        **({"oneOf": calls} if calls else {"not": {}}),
        "$defs": defs,
    }
    facts = {key: holds for key, holds in _UNSAID.items() if key not in ("results", "titles")}
    return Export(content, (*absent(snapshot), *unsaid(snapshot, facts)))


def in_order(snapshot: Snapshot) -> Sequence[InstalledTool]:
    """Return the tools in play, sorted by name."""
    return [entry for _, entry in sorted(snapshot.tools.items())]


def absent(snapshot: Snapshot) -> Iterator[str]:
    """Yield the reason for each tool that is not in play."""
    for name, verdict in sorted(snapshot.verdicts.items()):
        if not verdict.in_play:
            yield f"the tool {name}, which is not in play: {verdict.reason}"


def unsaid(snapshot: Snapshot, facts: Mapping[str, Callable[[AnyTool], bool]]) -> Iterator[str]:
    """Yield the facts that a format cannot express, with the tools that have them."""
    if snapshot.system_text:
        yield "the system text, with instructions of capabilities"
    for fact, holds in facts.items():
        if has := [entry.name for entry in in_order(snapshot) if holds(entry.tool)]:
            yield f"{fact} of {', '.join(has)}"


def _has_result(tool: AnyTool) -> bool:
    return bool({"type", "anyOf", "$ref", "properties", "enum"} & tool.output.json_schema.keys())


_UNSAID: Final[Mapping[str, Callable[[AnyTool], bool]]] = MappingProxyType(
    {
        "effects": lambda tool: True,
        "titles": lambda tool: tool.title is not None,
        "results": _has_result,
        "permissions": lambda tool: bool(tool.permissions),
        "policies": lambda tool: bool(tool.policies),
        "limits": lambda tool: bool(tool.limits),
        "approvals": lambda tool: tool.approval != "auto",
        "examples": lambda tool: bool(tool.examples),
    }
)
"""The facts that tool JSON cannot express. capset still enforces them for calls that it executes."""


def _refusals(installed: Sequence[InstalledTool]) -> Iterator[str]:
    """Yield what model providers refuse although it is valid JSON Schema. capset maps it in its own model calls."""
    for entry in installed:
        schema = entry.tool.arguments.json_schema
        if keywords := refused_keywords(schema):
            yield f"providers refuse {keywords[0]} at the top of the schema of {entry.name}"
        if names := refused_names(schema):
            yield f"providers refuse the name of the argument {names[0]!r:.80} of {entry.name}"
