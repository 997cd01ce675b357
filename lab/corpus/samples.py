"""Values that fit most JSON Schemas, made at random from a seed: for arguments of tools that others describe.

What a schema says beyond types, bounds and choices (patterns, conditions) is left to chance: a caller tries again with
another value, and passes over what never fits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, cast

from lab.corpus.nodes import Node, elements, members, target_of

WORDS: Final = ("a", "b c", "d/e", "f&g=h", "i?j#k", "l+m", "50%", "ü", "日本", "x,y;z", "[q]", "it's", "~n_o-p.")
"""Texts with the letters that have a meaning somewhere in a request."""
PLAIN_WORDS: Final = ("a", "b-c", "word", "x_1", "two.three")
_FORMATS: Final = {
    "date": "2026-02-03",
    "date-time": "2026-02-03T04:05:06Z",
    "time": "04:05:06Z",
    "duration": "P1D",
    "email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/a?b=c",
    "url": "https://example.com/a?b=c",
    "uuid": "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "byte": "aGVsbG8=",
}
_PATTERNED: Final = ("a", "A1", "abc", "ABC", "1", "12", "123456", "a1b2c3d4", "00000000", "AA", "en-US", "*")
"""Texts to try where a schema has a pattern."""
_DEEP: Final = 3
"""The depth from which on only required members are made."""
_TOO_DEEP: Final = 12


class NoSample(Exception):
    """A schema for which no value is made here."""


class Sampler:
    """Makes values that fit the parts of one schema.

    ``named`` are values of members by their names, which are taken wherever a member has that name.
    """

    def __init__(self, root: Node, random: Random, named: Mapping[str, Any] | None = None) -> None:
        self._root = root
        self._random = random
        self._named = named or {}

    def value(self, schema: object, words: Sequence[str] = WORDS, depth: int = 0) -> Any:  # JSON
        """Return a value with texts of these words. Raises ``NoSample``."""
        if schema is False or depth > _TOO_DEEP:
            raise NoSample
        node = self._merged(members(schema))
        if node.get("x-session-file") is True:
            raise NoSample
        if "const" in node:
            return node["const"]
        if options := elements(node.get("enum")):
            return self._random.choice([option for option in options if option is not None] or options)
        for key in ("oneOf", "anyOf"):
            if options := elements(node.get(key)):
                return self._option(node, key, options, words, depth)
        match self._type(node):
            case "object":
                return self._object(node, words, depth)
            case "array":
                return self._array(node, words, depth)
            case "integer" | "number" as kind:
                return self._number(node, is_whole=kind == "integer")
            case "boolean":
                return self._random.random() < 0.5
            case "null":
                return None
            case _:
                return self._text(node, words)

    def _merged(self, node: Node, depth: int = 0) -> dict[str, Any]:
        """Return a schema with what it refers to, and what all of it has to fit, in one."""
        if depth > _TOO_DEEP:
            raise NoSample
        merged: dict[str, Any] = {}
        parts: list[Node] = []
        if isinstance(reference := node.get("$ref"), str):
            target = target_of(self._root, reference)
            if not isinstance(target, Mapping):
                raise NoSample
            parts.append(members(cast("Node", target)))
        parts += [members(part) for part in elements(node.get("allOf"))]
        for part in [*(self._merged(part, depth + 1) for part in parts), node]:
            properties = {**members(merged.get("properties")), **members(part.get("properties"))}
            required = [*elements(merged.get("required")), *elements(part.get("required"))]
            merged |= {key: value for key, value in part.items() if key not in ("$ref", "allOf")}
            merged |= {"properties": properties, "required": required}
        return merged

    def _option(self, node: Node, key: str, options: Sequence[Any], words: Sequence[str], depth: int) -> Any:
        """Return a value of one of several options, null last."""
        shared = {name: value for name, value in node.items() if name != key}
        shuffled = self._random.sample(list(options), len(options))
        for option in sorted(shuffled, key=lambda option: members(option).get("type") == "null"):
            try:
                return self.value({"allOf": [shared, option]}, words, depth + 1)
            except NoSample:
                continue
        raise NoSample

    def _type(self, node: Node) -> str:
        kind = node.get("type")
        if isinstance(kind, str):
            return kind
        if kinds := [name for name in elements(kind) if isinstance(name, str)]:
            return self._random.choice([name for name in kinds if name != "null"] or kinds)
        if node["properties"] or "additionalProperties" in node:
            return "object"
        if "items" in node or "prefixItems" in node:
            return "array"
        if not {"minimum", "maximum", "multipleOf"}.isdisjoint(node):
            return "number"
        return "string"

    def _object(self, node: Node, words: Sequence[str], depth: int) -> dict[str, Any]:
        properties = members(node["properties"])
        required = [name for name in elements(node["required"]) if isinstance(name, str)]
        sampled: dict[str, Any] = {}
        for name, schema in properties.items():
            if name not in required and self._random.random() < (0.5 if depth < _DEEP else 1.0):
                continue
            if name in self._named:
                sampled[name] = self._named[name]
                continue
            try:
                sampled[name] = self.value(schema, words, depth + 1)
            except NoSample:
                if name in required:
                    raise
        for name in required:
            if name not in sampled:
                sampled[name] = self._named.get(name, words[0])
        others = node.get("additionalProperties")
        if not properties and isinstance(others, Mapping) and depth < _DEEP:
            sampled[self._random.choice(PLAIN_WORDS)] = self.value(cast("Node", others), words, depth + 1)
        return sampled

    def _array(self, node: Node, words: Sequence[str], depth: int) -> list[Any]:
        minimum = _bound(node, "minItems", 0)
        maximum = _bound(node, "maxItems", max(minimum, 2))
        count = self._random.randint(minimum, max(minimum, min(maximum, 2 if depth < _DEEP else minimum)))
        prefix, rest = elements(node.get("prefixItems")), node.get("items", True)
        sampled: list[Any] = []
        for at in range(max(count, 1 if maximum and depth < _DEEP else 0)):
            value = self.value(prefix[at] if at < len(prefix) else rest, words, depth + 1)
            if node.get("uniqueItems") is not True or value not in sampled:
                sampled.append(value)
        return sampled

    def _number(self, node: Node, *, is_whole: bool) -> int | float:
        """Return a number with at most one half behind the point, which all ways to write numbers write alike."""
        low, high = _limit(node, "minimum", "exclusiveMinimum"), _limit(node, "maximum", "exclusiveMaximum")
        first = math.ceil(low) if low is not None else math.floor(high) - 100 if high is not None else 0
        last = math.floor(high) if high is not None else first + 100
        first += node.get("exclusiveMinimum") == first
        last -= node.get("exclusiveMaximum") == last
        if first > last:
            raise NoSample
        number = self._random.randint(first, min(last, first + 1_000))
        step = node.get("multipleOf")
        if isinstance(step, int) and step > 0:
            number = -(-number // step) * step
        return number + 0.5 if not is_whole and step is None and number < last else number

    def _text(self, node: Node, words: Sequence[str]) -> str:
        minimum, maximum = _bound(node, "minLength", 0), node.get("maxLength")
        pattern, kind = node.get("pattern"), node.get("format")
        if isinstance(pattern, str):
            text = self._matching(pattern)
        elif isinstance(kind, str) and kind in _FORMATS:
            return _FORMATS[kind]
        else:
            text = self._random.choice(words)
        while len(text) < minimum:
            text += text or "a"
        return text[:maximum] if isinstance(maximum, int) else text

    def _matching(self, pattern: str) -> str:
        try:
            fitting = [text for text in (*_PATTERNED, *_FORMATS.values()) if re.search(pattern, text)]
        except re.error:
            raise NoSample from None
        if not fitting:
            raise NoSample
        return self._random.choice(fitting)


def _bound(node: Node, key: str, default: int) -> int:
    value = node.get(key)
    return value if isinstance(value, int) else default


def _limit(node: Node, *keys: str) -> float | None:
    values = [value for key in keys if isinstance(value := node.get(key), int | float) and not isinstance(value, bool)]
    return max(values) if values and keys[0] == "minimum" else min(values) if values else None
