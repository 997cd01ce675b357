"""A walk through a value by its schema: it fills in defaults, and finds how much work it is to validate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, Final, TypeAlias, cast

from capset.definitions.foreign_nodes import Node

_LISTED_FROM: Final = 10_000
_CHECKED_FROM: Final = 300_000
_PER_VALUE: Final = 20
"""Schemas that a value may meet: so many, and so many more for each value inside it."""


_Met: TypeAlias = tuple[Iterable[Node], Any, bool, bool]


class Walk:
    """One walk. Defaults are filled into ``value`` itself, which must be plain JSON data of no great depth.

    Where a schema is a choice, a default is filled in if only one of its options can be meant: those of another type
    or with another constant in a field cannot. Nothing is filled in by ``if``, ``patternProperties`` and dynamic
    references.
    ``is_listable`` is false where to tell everything that does not fit would take too long, as with choices between
    types that hold themselves, each of which is tried at every level; ``is_checkable`` where even to say yes or no
    might.
    """

    def __init__(self, root: Node, value: Any) -> None:
        self.is_listable = self.is_checkable = True
        extra = _PER_VALUE * _size(value)
        visits = likely = 0
        waiting = [(root, value, True, True)]
        while waiting:
            node, inside, fills, is_likely = waiting.pop()
            visits += 1
            likely += is_likely
            if likely > _CHECKED_FROM + extra:
                self.is_listable = self.is_checkable = False
                return
            if visits > _LISTED_FROM + extra:
                self.is_listable = False
            for nodes, one, filling, likely_too in _met(node, inside, fills):
                is_so = is_likely and likely_too
                if is_so or self.is_listable:
                    waiting.extend((met, one, filling, is_so) for met in nodes)


def _met(node: Node, value: Any, fills: bool) -> Iterator[_Met]:
    """Yield the schemas that meet something, what they meet, and whether they fill in there and are likely to hold."""
    yield node.always, value, fills, True
    for options in node.choices:
        meant: list[Node] = []
        others: list[Node] = []
        for option in options:
            (meant if _can_mean(option, value) else others).append(option)
        yield meant, value, fills and len(meant) == 1, True
        yield others, value, False, False
    yield node.tests, value, False, True
    if isinstance(value, dict):
        yield from _met_by_fields(node, cast("dict[str, Any]", value), fills)
    elif isinstance(value, list):
        yield from _met_by_items(node, cast("list[Any]", value), fills)


def _met_by_fields(node: Node, value: dict[str, Any], fills: bool) -> Iterator[_Met]:
    if fills:
        for name, default in node.defaults.items():
            if name not in value:
                value[name] = deepcopy(default)
    for name, member in value.items():
        own = node.fields.get(name)
        if own is not None:
            yield [own], member, fills, True
        elif node.others is not None:
            yield [node.others], member, fills and not node.patterns, True
        yield [*node.patterns, *node.each], member, False, True


def _met_by_items(node: Node, value: list[Any], fills: bool) -> Iterator[_Met]:
    for at, item in enumerate(value):
        if at < len(node.prefix):
            yield [node.prefix[at]], item, fills, True
        elif node.items is not None:
            yield [node.items], item, fills, True
        yield node.each, item, False, True


def _can_mean(node: Node, value: Any) -> bool:
    """Whether a value may fit by its type and by the constants and enums in it, which tell options apart."""
    types = node.schema.get("type")
    if types is not None and _types_of(value).isdisjoint([types] if isinstance(types, str) else types):
        return False
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        # A schema may name far more fields than a value has, and the other way round.
        for name in node.fields.keys() & members.keys():
            if not _is_among(members[name], node.fields[name].schema):
                return False
    return all(_can_mean(one, value) for one in node.always)


def _is_among(value: Any, schema: dict[str, Any]) -> bool:
    return schema.get("const", value) == value and value in schema.get("enum", (value,))


def _types_of(value: Any) -> frozenset[str]:
    match value:
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int() | float():
            return frozenset({"integer", "number"})
        case str():
            return frozenset({"string"})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset({"object"})


def _size(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        count += 1
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(cast("dict[str, Any]", one).values())
        elif isinstance(one, list):
            waiting.extend(cast("list[Any]", one))
    return count
