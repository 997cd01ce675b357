"""The JSON Schema of configuration files, for editors: for any capabilities, or only for the installed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from capset.definitions.capabilities import AnyCapability, config_schema
from capset.definitions.names import TOOL
from capset_connect.config_file.shapes import ConfigurationShape

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
TITLE: Final = "A capset configuration file"
_DEFINITIONS: Final = "#/$defs/"
_PREFIX: Final = {"type": "string", "pattern": "^[A-Za-z0-9_-]*$"}
Node = dict[str, Any]
"""A part of a JSON Schema. Its values have any JSON type."""


def configuration_schema(capabilities: Iterable[AnyCapability] | None = None) -> Node:
    """Return the schema of configuration files.

    With ``capabilities``, it accepts these, each with its own presets, config and tools, so that an editor can suggest
    them, and those of the file's own MCP servers and APIs. Without, it accepts any id.
    """
    schema: Node = {"$schema": DIALECT, **_plain_schema(ConfigurationShape.model_json_schema()), "title": TITLE}
    if capabilities is not None:
        sorted_capabilities = sorted(capabilities, key=lambda capability: capability.name)
        schema["$defs"] |= {
            name: inner for capability in sorted_capabilities for name, inner in _definitions(capability)
        }
        entries = [entry for capability in sorted_capabilities for entry in _entries(capability)]
        item = {"anyOf": [*entries, *_source_entries()]}
        for agent in (schema, schema["$defs"]["AgentDefinitionShape"]):
            agent["properties"]["capabilities"]["items"] = item
    return schema


def _source_entries() -> Iterator[Node]:
    """Yield the schemas of both forms of an entry for a capability of the file's own MCP servers and APIs."""
    name: Node = {"type": "string", "pattern": "^(mcp|api):", "description": "An MCP server or an API of this file."}
    yield name
    members: Node = {"id": name, "prefix": _PREFIX, "rename": {"type": "object"}}
    yield {**_closed_object(members), "required": ["id"], "description": name["description"]}


def _entries(capability: AnyCapability) -> Iterator[Node]:
    """Yield the schemas of the two forms of a capability's entry: a plain id, and an object with options."""
    ids: Node = {
        "enum": [capability.name, *capability.aliases],
        "description": capability.description or capability.title,
    }
    yield ids
    members: Node = {"id": ids}
    if capability.presets:
        members["presets"] = _closed_object({name: _preset(name in capability.default) for name in capability.presets})
    if capability.config is not None:
        config = {key: inner for key, inner in config_schema(capability.config).json_schema.items() if key != "$defs"}
        members["config"] = _capability_references(capability, config)
    if names := [tool.name for tool in capability.every_tool]:
        members["prefix"] = _PREFIX
        members["rename"] = _closed_object({name: {"type": "string", "pattern": f"^{TOOL.pattern}$"} for name in names})
    yield {**_closed_object(members), "required": ["id"], "description": ids["description"]}


def _preset(is_on: bool) -> Node:
    return {"type": "boolean", "description": f"{'on' if is_on else 'off'} by default"}


def _closed_object(members: Node) -> Node:
    return {"type": "object", "properties": members, "additionalProperties": False}


def _definitions(capability: AnyCapability) -> Iterator[tuple[str, Node]]:
    """Yield the definitions of a capability's config schema, under names that start with the capability's."""
    if capability.config is not None:
        for name, inner in config_schema(capability.config).json_schema.get("$defs", {}).items():
            yield f"{capability.name}.{name}", _capability_references(capability, inner)


def _capability_references(capability: AnyCapability, schema: Any) -> Any:
    """Return a schema whose references point to the definitions of one capability."""
    if isinstance(schema, list):
        return [_capability_references(capability, inner) for inner in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    node = cast("Mapping[str, Any]", schema)
    if isinstance(ref := node.get("$ref"), str) and ref.startswith(_DEFINITIONS):
        return {**node, "$ref": f"{_DEFINITIONS}{capability.name}.{ref.removeprefix(_DEFINITIONS)}"}
    return {key: _capability_references(capability, inner) for key, inner in node.items()}


def _plain_schema(schema: Any) -> Any:
    """Return a schema without pydantic's titles, and with Markdown's code markup in texts."""
    if isinstance(schema, list):
        return [_plain_schema(inner) for inner in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema.replace("``", "`") if isinstance(schema, str) else schema
    node = cast("Mapping[str, Any]", schema)
    return {key: _plain_schema(inner) for key, inner in node.items() if key != "title" or not isinstance(inner, str)}
