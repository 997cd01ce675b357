"""Definite violations of a JSON Schema, detected without the validator under test."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

JsonSchema = Mapping[str, Any]
Data = Any
"""JSON data, as ``json.loads`` returns it."""

_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": (int, float),
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}
_BOUNDS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "minimum": operator.lt,
    "exclusiveMinimum": operator.le,
    "maximum": operator.gt,
    "exclusiveMaximum": operator.ge,
}
_DATA_KEYWORDS: Final = frozenset({"default", "const", "enum", "examples", "discriminator"})


def schema_violation(schema: JsonSchema, value: Data, root: JsonSchema | None = None) -> str | None:
    """Return why ``value`` definitely violates the schema, or ``None`` if it may be valid.

    Types, values, bounds, lengths, members and alternatives are checked; patterns, formats and a validator's additions
    are not.
    """
    root = schema if root is None else root
    if (target := resolve_ref(schema, root)) is not schema:
        return schema_violation(target, value, root)
    if "const" in schema and not _are_equal(schema["const"], value):
        return f"{_excerpt(value)} is not {schema['const']!r}"
    if "enum" in schema and not any(_are_equal(option, value) for option in schema["enum"]):
        return f"{_excerpt(value)} is not one of {schema['enum']}"
    for word in ("anyOf", "oneOf"):
        if word in schema and all(schema_violation(branch, value, root) for branch in schema[word]):
            return f"{_excerpt(value)} fits no alternative"
    for part in schema.get("allOf", ()):
        if (problem := schema_violation(part, value, root)) is not None:
            return problem
    kinds = schema.get("type", ())
    type_names = [kinds] if isinstance(kinds, str) else kinds
    if type_names and not any(_has_type(kind, value) for kind in type_names):
        return f"{_excerpt(value)} is not of type {' or '.join(type_names)}"
    return _bounds_violation(schema, value) or _members_violation(schema, value, root)


def resolve_ref(schema: JsonSchema, root: JsonSchema) -> JsonSchema:
    """Return the target of a ``$ref``, or the schema itself if it has none."""
    while (name := schema.get("$ref")) is not None:
        schema = root["$defs"][str(name).rpartition("/")[2]]
    return schema


def object_schemas(schema: Data) -> Iterator[dict[str, Any]]:
    """Yield every object schema inside a schema, the schema itself first."""
    if isinstance(schema, list):
        for item in cast("list[Any]", schema):
            yield from object_schemas(item)
    elif isinstance(schema, dict):
        node = cast("dict[str, Any]", schema)
        if "properties" in node:
            yield node
        for key, inner in node.items():
            if key in ("properties", "$defs"):
                for subschema in inner.values():
                    yield from object_schemas(subschema)
            elif key not in _DATA_KEYWORDS:
                yield from object_schemas(inner)


def _has_type(kind: str, value: Data) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _are_equal(first: Data, second: Data) -> bool:
    return isinstance(first, bool) is isinstance(second, bool) and first == second


def _bounds_violation(schema: JsonSchema, value: Data) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        for word, is_beyond in _BOUNDS.items():
            if word in schema and is_beyond(value, schema[word]):
                return f"{value} is beyond the {word} of {schema[word]}"
    # A validator may strip surrounding whitespace before it checks the length.
    if isinstance(value, str) and not (
        schema.get("minLength", 0) <= len(value) and len(value.strip()) <= schema.get("maxLength", len(value))
    ):
        return f"a text of {len(value)} characters is too short or too long"
    if isinstance(value, list):
        count = len(cast("list[Any]", value))
        if count < schema.get("minItems", 0) or count > schema.get("maxItems", count):
            return f"{count} items are too few or too many"
    return None


def _members_violation(schema: JsonSchema, value: Data, root: JsonSchema) -> str | None:
    if isinstance(value, list) and "items" in schema:
        prefix: Sequence[Any] = schema.get("prefixItems", ())
        for item in cast("list[Any]", value)[len(prefix) :]:
            if (problem := schema_violation(schema["items"], item, root)) is not None:
                return problem
    if not isinstance(value, dict):
        return None
    members, fields = cast("dict[str, Any]", value), cast("Mapping[str, JsonSchema]", schema.get("properties", {}))
    for name in schema.get("required", ()):
        if name not in members:
            return f"{name!r} is missing"
    others = schema.get("additionalProperties", True)
    for name, inner in members.items():
        if name in fields:
            problem = schema_violation(fields[name], inner, root)
        elif others is False:
            problem = "it is unknown"
        else:
            problem = None if others is True else schema_violation(others, inner, root)
        if problem is not None:
            return f"{name!r}: {problem}"
    return None


def _excerpt(value: Data) -> str:
    return json.dumps(value)[:60]
