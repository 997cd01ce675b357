"""Objects that say which properties they have take no others (spec 4, G12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

_OPEN: Final = frozenset(
    {
        *("additionalProperties", "unevaluatedProperties", "patternProperties", "$ref", "$dynamicRef"),
        *("allOf", "anyOf", "oneOf", "if", "dependentSchemas"),
    }
)
"""What lets other schemas have a say in an object's properties: only its author can close it then."""


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema of an input in which unknown properties are refused, at every depth.

    That is said of objects that list ``properties`` and say nothing of others. What is joined of several schemas is
    left as it is, and so is what only these refer to.
    """
    root, defs = dict(schema), cast("Mapping[str, Any]", schema.get("$defs", {}))
    reached: set[str] = set()
    root = _closed(root, reached)
    if not defs:
        return root
    known, done = dict(defs), set[str]()
    while todo := (reached & known.keys()) - done:
        for name in sorted(todo):
            known[name] = _closed(known[name], reached)
            done.add(name)
    return {**root, "$defs": known}


def _closed(schema: Any, reached: set[str]) -> Any:
    """Close a schema and those of its properties and items; note the definitions that are used alone there."""
    if not isinstance(schema, Mapping):
        return schema
    found = dict(cast("Mapping[str, Any]", schema))
    reference = found.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        reached.add(reference.removeprefix("#/$defs/"))
    properties = found.get("properties")
    if isinstance(properties, Mapping):
        members = cast("Mapping[str, Any]", properties)
        found["properties"] = {name: _closed(inner, reached) for name, inner in members.items()}
        if _OPEN.isdisjoint(found):
            found["additionalProperties"] = False
    if "items" in found:
        found["items"] = _closed(found["items"], reached)
    return found
