"""Patterns of foreign schemas that do not take linear time: found, and left out of what is checked (spec 3, K24)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, cast

from capset.schemas.schema import schemas_in

if TYPE_CHECKING:
    from jsonschema_rs import RegexOptions

_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_MAX_REGEX_BYTES: Final = 1 << 20


def regex_options() -> RegexOptions:
    """Return the options of a validator whose patterns take linear time."""
    import jsonschema_rs as rs

    return rs.RegexOptions(size_limit=_MAX_REGEX_BYTES)


def unlinear_patterns(document: Mapping[str, Any]) -> frozenset[str]:
    """Return the patterns of a JSON Schema that are no regular expressions, or none that take linear time."""
    patterns = {pattern for schema in schemas_in(document) for pattern in _patterns(schema)}
    return frozenset(pattern for pattern in patterns if not _is_linear(pattern))


def without_patterns(document: Mapping[str, Any], patterns: Collection[str]) -> dict[str, Any]:
    """Return a JSON Schema that takes every value that ``document`` takes, and checks nothing by these patterns.

    A part that takes more values may make another take fewer. Such keywords are left out where a pattern of these
    stands in them, or may stand behind a reference: ``not``, ``if``, ``maxContains``, and what is not evaluated;
    ``oneOf`` becomes ``anyOf``.
    """
    relaxed = deepcopy(dict(document))
    for schema in [*schemas_in(relaxed)]:  # the outer first, while all is still in them
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
            # Any name may be meant, so none of them is additional.
            rest = {pattern: inner for pattern, inner in by_pattern.items() if pattern not in patterns}
            schema["patternProperties"] = {"": {}, **rest}
    return relaxed


def _depends(part: object, patterns: Collection[str]) -> bool:
    """Whether what a part of a schema takes depends on one of the patterns, as far as it can be seen."""
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
