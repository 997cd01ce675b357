"""Agents' tools as others read them: OpenAI's and Anthropic's tool JSON, and JSON Schema (spec 8, W24)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from capset.composition.installation import Installed
from capset.definitions.tools.definition import AnyTool
from capset.errors import DefinitionError, unknown
from capset.evaluation.snapshot.snapshot import Snapshot
from capset.schemas.model_schemas import refused_keywords, refused_names
from capset_connect.interop.json_types import mapped_schema

ToolFormat = Literal["openai", "openai-chat", "anthropic"]
"""The Responses API and the Chat Completions API of OpenAI, and the Messages API of Anthropic."""
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class Export:
    """An agent in some format, as JSON data, and what the format cannot say.

    ``warnings`` name what is said and those who read the format refuse, or what others may read there.
    """

    content: Any  # JSON data
    left_out: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def checked_format(format: ToolFormat) -> ToolFormat:
    """Return a format. Raises ``DefinitionError`` for one that is not known."""
    if format not in get_args(ToolFormat):
        raise DefinitionError(unknown("format", format, get_args(ToolFormat)))
    return format


def tool_json(format: ToolFormat, name: str, description: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of one tool, whose ``arguments`` are a JSON Schema."""
    if format == "anthropic":
        return {"name": name, "description": description, "input_schema": arguments}
    # Not strict: that would need a schema without optional arguments, and capset validates every call itself.
    members = {"name": name, "description": description, "parameters": arguments, "strict": False}
    return {"type": "function", **members} if format == "openai" else {"type": "function", "function": members}


def export_tools(snapshot: Snapshot, format: ToolFormat, *, names: Mapping[str, str] | None = None) -> Export:
    """Return the tools in play as tool JSON: ``openai`` (Responses), ``openai-chat`` or ``anthropic``.

    ``names`` has other names by those here, such as ``ImportedTools.names``, for those who take the originals. Raises
    ``DefinitionError`` for another format.
    """
    checked_format(format)
    installed = in_order(snapshot)
    content: list[dict[str, Any]] = []
    for entry in installed:
        name = (names or {}).get(entry.name, entry.name)
        # As an import would read it, so that to import it again changes nothing.
        arguments = mapped_schema(f"tool {name!r}: its arguments", deepcopy(dict(entry.tool.arguments.json_schema)))
        content.append(tool_json(format, name, entry.tool.description, arguments))
    return Export(content, (*absent(snapshot), *unsaid(snapshot, _UNSAID)), tuple(_refusals(installed)))


def export_json_schema(snapshot: Snapshot) -> Export:
    """Return a JSON Schema of calls, ``{"name", "arguments"}``, with the schemas of each tool in play under ``$defs``.

    ``arguments/NAME`` and ``results/NAME`` are the ids of a tool's schemas.
    """
    installed = in_order(snapshot)
    defs: dict[str, Any] = {}
    for entry in installed:
        title = {"title": entry.tool.title} if entry.tool.title is not None else {}
        parts = {"arguments": entry.tool.arguments.json_schema, "results": entry.tool.output.json_schema}
        for kind, schema in parts.items():
            # An id makes it a document of its own, in which references from its root hold.
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


def in_order(snapshot: Snapshot) -> Sequence[Installed]:
    """Return the tools in play by name."""
    return [entry for _, entry in sorted(snapshot.tools.items())]


def absent(snapshot: Snapshot) -> Iterator[str]:
    """Yield why each tool that is not in play is left out."""
    for name, verdict in sorted(snapshot.verdicts.items()):
        if not verdict.in_play:
            yield f"the tool {name}, which is not in play: {verdict.reason}"


def unsaid(snapshot: Snapshot, facts: Mapping[str, Callable[[AnyTool], bool]]) -> Iterator[str]:
    """Yield the facts that a format has no place for, with the tools that they are of."""
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
"""The facts that tool JSON has no place for. capset holds to them all the same where it makes the calls."""


def _refusals(installed: Sequence[Installed]) -> Iterator[str]:
    """Yield what model providers refuse, though JSON Schema has it; where capset makes the calls, it is mapped."""
    for entry in installed:
        schema = entry.tool.arguments.json_schema
        if keywords := refused_keywords(schema):
            yield f"providers refuse {keywords[0]} at the top of the schema of {entry.name}"
        if names := refused_names(schema):
            yield f"providers refuse the name of the argument {names[0]!r:.80} of {entry.name}"
