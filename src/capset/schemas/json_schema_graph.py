"""A JSON Schema as a graph of nodes with resolved references, for walking values, not for validating them.

The validator neither fills in defaults nor predicts how long it will take: walking provides both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from jsonschema_rs import Resolver

MAX_NODES: Final = 100_000
_MAX_CHAIN: Final = 64
"""The longest chain of schemas applied to one value, each by the previous one."""
_MAX_APPLIED: Final = 10_000
"""All schemas applied to one value: references to references can make it 2 to the 64th in a few lines."""
BASE: Final = "json-schema:///"
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
Data = dict[str, Any]


class UnsoundSchema(ValueError):
    """The schema cannot be used, for the reason given."""


class SchemaNode:
    """One schema, and those that it applies: to the same value (``always``, ``choices``, ``tests``) or to its children.

    ``always`` hold for each value, any of each of ``choices`` may hold, and ``tests`` only distinguish values.
    """

    __slots__ = (
        "always",
        "choices",
        "defaults",
        "each",
        "fields",
        "items",
        "others",
        "patterns",
        "prefix",
        "schema",
        "tests",
    )

    def __init__(self, schema: Data) -> None:
        self.schema = schema
        self.always: list[SchemaNode] = []
        self.choices: list[list[SchemaNode]] = []
        self.tests: list[SchemaNode] = []
        self.fields: dict[str, SchemaNode] = {}
        self.defaults: dict[str, Any] = {}
        self.patterns: list[SchemaNode] = []
        self.others: SchemaNode | None = None
        self.prefix: list[SchemaNode] = []
        self.items: SchemaNode | None = None
        self.each: list[SchemaNode] = []

    @property
    def in_place(self) -> Iterator[SchemaNode]:
        """Every schema that this one applies to the same value."""
        yield from self.always
        for options in self.choices:
            yield from options
        yield from self.tests


def graph(document: Data, resolver: Resolver) -> SchemaNode:
    """Return the node of a document that its meta-schema accepts.

    Raises ``UnsoundSchema`` for a reference without a target in the document, and for endless references.
    """
    growth = _Growth()
    root = growth.node(document, resolver)
    while growth.waiting:
        growth.grow(*growth.waiting.pop())
    measured: dict[SchemaNode, tuple[int, int]] = {}
    for node in growth.nodes:
        _measure(node, measured, 1)
    known: dict[SchemaNode, tuple[Any] | None] = {}
    for node in growth.nodes:
        node.defaults = {name: found[0] for name, inner in node.fields.items() if (found := _default(inner, known))}
    return root


class _Growth:
    def __init__(self) -> None:
        self.nodes: list[SchemaNode] = []
        self.waiting: list[tuple[SchemaNode, Resolver]] = []
        self._referred: dict[tuple[str, str], SchemaNode] = {}

    def node(self, schema: object, resolver: Resolver) -> SchemaNode:
        if len(self.nodes) >= MAX_NODES:
            raise UnsoundSchema(f"it should be of at most {MAX_NODES:,} schemas, those that are referred to included")
        # Anything else is refused by the validator, with a clearer message.
        mapping: Data = {"not": {}} if schema is False else {}
        if isinstance(schema, dict):
            mapping = cast("Data", schema)
        node = SchemaNode(mapping)
        self.nodes.append(node)
        self.waiting.append((node, _inside(mapping, resolver)))
        return node

    def grow(self, node: SchemaNode, resolver: Resolver) -> None:
        schema = node.schema

        def one(key: str) -> SchemaNode | None:
            found = schema.get(key)
            return self.node(cast("object", found), resolver) if isinstance(found, dict | bool) else None

        def several(key: str) -> list[SchemaNode]:
            found = schema.get(key)
            return [self.node(inner, resolver) for inner in cast("list[Any]", found)] if isinstance(found, list) else []

        def named(key: str) -> dict[str, SchemaNode]:
            found = schema.get(key)
            inside = cast("dict[str, object]", found) if isinstance(found, dict) else {}
            # ``dependencies`` of an old dialect may be lists of names.
            return {name: self.node(one, resolver) for name, one in inside.items() if not isinstance(one, list)}

        def present(*nodes: SchemaNode | None) -> list[SchemaNode]:
            return [one for one in nodes if one is not None]

        for key in _REFERENCES:
            if isinstance(schema.get(key), str):
                # A dynamic reference may resolve differently within a value, so nothing is filled in through it.
                (node.always if key == "$ref" else node.tests).append(self._target(schema[key], resolver))
        node.always += several("allOf")
        node.choices += [options for key in ("anyOf", "oneOf") if (options := several(key))]
        node.tests += present(*map(one, ("not", "if", "then", "else")))
        node.tests += [*named("dependentSchemas").values(), *named("dependencies").values()]
        node.fields = named("properties")
        node.patterns = list(named("patternProperties").values())
        node.others = one("additionalProperties")
        is_old = isinstance(schema.get("items"), list)
        node.prefix = several("items" if is_old else "prefixItems")
        node.items = one("additionalItems" if is_old else "items")
        node.each = present(*map(one, ("contains", "unevaluatedItems", "unevaluatedProperties")))

    def _target(self, reference: str, resolver: Resolver) -> SchemaNode:
        key = (resolver.base_uri, reference)
        if key not in self._referred:
            self._referred[key] = self.node(*_resolve(resolver, reference))
        return self._referred[key]


def _inside(schema: Data, resolver: Resolver) -> Resolver:
    """Return the resolver for the contents of a schema; only a string is an address, not a field called ``$id``."""
    from jsonschema_rs import ReferencingError

    for key in ("$id", "id"):  # draft 4 uses the second; in later ones it means nothing, and resolves to nothing
        own = schema.get(key)
        if isinstance(own, str) and not own.startswith("#"):
            with suppress(ReferencingError, ValueError):
                return resolver.lookup(own).resolver
    return resolver


def _resolve(resolver: Resolver, reference: str) -> tuple[Any, Resolver]:
    from jsonschema_rs import ReferencingError

    try:
        found = resolver.lookup(reference)
    except (ReferencingError, ValueError):
        raise UnsoundSchema(
            f"its reference {reference[:200]!r} leads to nothing inside the document, and nothing is fetched"
        ) from None
    return found.contents, found.resolver


def _measure(node: SchemaNode, measured: dict[SchemaNode, tuple[int, int]], depth: int) -> tuple[int, int]:
    """Return the length of the longest chain of schemas that ``node`` applies to one value, and the number of all."""
    if node in measured:
        return measured[node]
    inner = [_measure(one, measured, depth + 1) for one in node.in_place] if depth <= _MAX_CHAIN else []
    chain, count = 1 + max((chain for chain, _ in inner), default=0), 1 + sum(count for _, count in inner)
    if depth + chain > _MAX_CHAIN + 1:
        raise UnsoundSchema(
            f"it should apply at most {_MAX_CHAIN} schemas to one value in a chain; "
            "a reference may lead back to itself only through a field or an item"
        )
    if count > _MAX_APPLIED:
        raise UnsoundSchema(f"it should apply at most {_MAX_APPLIED:,} schemas to one value")
    measured[node] = chain, count
    return chain, count


def _default(node: SchemaNode, known: dict[SchemaNode, tuple[Any] | None]) -> tuple[Any] | None:
    """Return the default of a field, or of the schema it refers to, if any; ``known`` caches the results."""
    if node not in known:
        own = (node.schema["default"],) if "default" in node.schema else None
        known[node] = own or next((found for one in node.always if (found := _default(one, known))), None)
    return known[node]
