"""Nesting depths of values, which decide whether a style can send them (spec 7, M106)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, cast

_LEVELS: Final = 3
"""The number of levels of lists and objects that distinguish the depths."""
_CHAIN: Final = 64
"""The maximum number of schemas that are followed for one value, each within or behind another."""


class Depth(IntEnum):
    """How lists and objects are nested in a value."""

    SCALAR = 0
    LIST = 1
    """Of scalars."""
    OBJECT = 2
    """Of scalars."""
    OBJECT_OF_LISTS = 3
    """Of scalars and lists of them."""
    DEEPER = 4


Span = tuple[Depth, Depth]
_SCALARS: Final[Span] = (Depth.SCALAR, Depth.SCALAR)


def depth_sent(style: str, *, explode: bool) -> Depth:
    """Return the maximum depth that a style can send."""
    if style == "deepObject":
        return Depth.DEEPER
    if explode and style == "form":
        return Depth.OBJECT_OF_LISTS
    return Depth.LIST if explode and style in ("spaceDelimited", "pipeDelimited") else Depth.OBJECT


def depths_of(schema: object, definitions: Mapping[str, Any]) -> Span:
    """Return the minimum and maximum depth of the values of a JSON Schema; ``definitions`` are its ``$defs``.

    Optional fields count only for the maximum. Where a schema does not say, scalars are assumed.
    """
    return _Depths(definitions).span(schema, _LEVELS, _CHAIN)


class _Depths:
    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._known: dict[tuple[str, int], Span] = {}

    def span(self, schema: object, levels: int, chain: int) -> Span:
        """Return the depths of a schema, following at most this many levels and schemas."""
        if not levels or not chain or not isinstance(schema, dict):
            return _SCALARS
        node = cast("dict[str, Any]", schema)
        spans = [self.span(part, levels, chain - 1) for part in node.get("allOf", ())]
        if "$ref" in node:
            spans.append(self._referred(node["$ref"].removeprefix("#/$defs/"), levels, chain - 1))
        for key in ("anyOf", "oneOf"):
            options = [option for option in node.get(key, ()) if option != {"type": "null"}]
            spans.append(_either(self.span(option, levels, chain - 1) for option in options))
        spans.append(_either(self._by_type(node, levels, chain)))
        return max(minimum for minimum, _ in spans), max(maximum for _, maximum in spans)

    def _referred(self, name: str, levels: int, chain: int) -> Span:
        key = (name, levels)
        if key not in self._known:
            self._known[key] = _SCALARS  # for a schema that refers to itself
            self._known[key] = self.span(self._definitions[name], levels, chain)
        return self._known[key]

    def _by_type(self, node: dict[str, Any], levels: int, chain: int) -> Iterable[Span]:
        """Yield the depths of each type that a schema allows."""
        declared = node.get("type", "object" if "properties" in node else "array" if "items" in node else None)
        for kind in cast("list[Any]", declared) if isinstance(declared, list) else [declared]:
            if kind == "array":
                minimum, maximum = self.span(node.get("items"), levels - 1, chain)
                yield _list_of(minimum), _list_of(maximum)
            elif kind == "object":
                fields = {
                    name: self.span(field, levels - 1, chain) for name, field in node.get("properties", {}).items()
                }
                others = self.span(node.get("additionalProperties"), levels - 1, chain)
                required = [
                    fields[name][0] for name in node.get("required", ()) if isinstance(name, str) and name in fields
                ]
                maximum = max(upper for _, upper in [*fields.values(), others])
                yield _object_of(max(required, default=Depth.SCALAR)), _object_of(maximum)
            elif kind != "null":
                yield _SCALARS


def _either(spans: Iterable[Span]) -> Span:
    """Return the depths of values that match one of several schemas."""
    options = list(spans) or [_SCALARS]
    return min(minimum for minimum, _ in options), max(maximum for _, maximum in options)


def _list_of(items: Depth) -> Depth:
    return Depth.LIST if items == Depth.SCALAR else Depth.DEEPER


def _object_of(fields: Depth) -> Depth:
    return {Depth.SCALAR: Depth.OBJECT, Depth.LIST: Depth.OBJECT_OF_LISTS}.get(fields, Depth.DEEPER)
