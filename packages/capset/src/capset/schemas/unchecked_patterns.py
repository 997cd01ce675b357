"""Patterns of third-party schemas that do not run in linear time, and are therefore not checked (spec 3, K24)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, cast

from capset.schemas.schema import schemas_in

if TYPE_CHECKING:
    from jsonschema_rs import RegexOptions

_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


def regex_options() -> RegexOptions:
    """Return the options of a validator whose patterns run in linear time."""
    import jsonschema_rs as rs

    return rs.RegexOptions(size_limit=1 << 20)  # bytes


def unlinear_patterns(document: Mapping[str, Any]) -> frozenset[str]:
    """Return the patterns of a JSON Schema that are not regular expressions or do not run in linear time."""
    patterns = {pattern for schema in schemas_in(document) for pattern in _patterns(schema)}
    return frozenset(pattern for pattern in patterns if not _is_linear(pattern))


def without_patterns(document: Mapping[str, Any], patterns: Collection[str]) -> dict[str, Any]:
    """Return a JSON Schema that accepts every value that ``document`` accepts, but does not check ``patterns``.

    Some keywords accept fewer values if a part of them accepts more. Where they contain one of the patterns, directly
    or possibly behind a reference, ``not``, ``if`` and ``maxContains`` are removed, and ``oneOf`` becomes ``anyOf``;
    ``unevaluatedProperties`` and ``unevaluatedItems`` are always removed.
    """
    relaxed = deepcopy(dict(document))
    for schema in [*schemas_in(relaxed)]:  # outer schemas first, while they are still complete
        if _depends(schema.get("not"), patterns):
            del schema["not"]
        if _depends(schema.get("if"), patterns):
            for key in ("if", "then", "else"):
                schema.pop(key, None)
        if _depends(schema.get("oneOf"), patterns):
            options = {"anyOf": schema.pop("oneOf")}
            schema.update({"allOf": [*schema.get("allOf", []), options]} if "anyOf" in schema else options)
        if _depends(schema.get("contains"), patterns):
            schema.pop("maxContains", None)
        schema.pop("unevaluatedProperties", None)
        schema.pop("unevaluatedItems", None)
        if isinstance(pattern := schema.get("pattern"), str) and pattern in patterns:
            del schema["pattern"]
        by_pattern = _pattern_properties(schema)
        if not by_pattern.keys().isdisjoint(patterns):
            # The removed patterns might match any name, so no name is additional.
            checked = {pattern: inner for pattern, inner in by_pattern.items() if pattern not in patterns}
            schema["patternProperties"] = {"": {}, **checked}
    return relaxed


def _depends(part: object, patterns: Collection[str]) -> bool:
    """Whether a part of a schema contains one of the patterns, or a reference behind which one may be."""
    return any(
        not _REFERENCES.isdisjoint(schema) or any(pattern in patterns for pattern in _patterns(schema))
        for schema in schemas_in(part)
    )


def _patterns(schema: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(pattern := schema.get("pattern"), str):
        yield pattern
    yield from _pattern_properties(schema)


def _pattern_properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    by_pattern = schema.get("patternProperties")
    return cast("dict[str, Any]", by_pattern) if isinstance(by_pattern, dict) else {}


def _is_linear(pattern: str) -> bool:
    import jsonschema_rs as rs

    try:
        rs.validator_for({"pattern": pattern}, pattern_options=regex_options(), offline=True)
    except rs.ValidationError:
        return False
    return True
