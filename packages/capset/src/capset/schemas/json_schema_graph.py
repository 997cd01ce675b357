"""A JSON Schema as a graph of nodes with resolved references, for walking values rather than validating them.

The validator neither fills in defaults nor predicts how long it will take: the walk does both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from capset.schemas.schema import schemas_in

if TYPE_CHECKING:
    from jsonschema_rs import Resolver

_MAX_CHAIN: Final = 64
"""The maximum length of a chain of schemas that apply to one value, each through the previous one."""
BASE: Final = "json-schema:///"
_META_SCHEMAS: Final = ("https://json-schema.org/draft", "http://json-schema.org/draft")
"""The prefixes of references to dialects, which are built into the validator and need not be walked."""
Data = dict[str, Any]


class UnsoundSchema(ValueError):
    """The schema cannot be used; the message says why."""


class _NoTarget(UnsoundSchema):
    """A reference has no target."""


@dataclass(eq=False, repr=False, slots=True)
class SchemaNode:
    """One schema, with its subschemas for the same value (``always``, ``choices``, ``tests``) or for its children.

    All of ``always`` apply to every value, any option in each of ``choices`` may, and ``tests`` only tell values apart.
    """

    schema: Data
    always: list[SchemaNode] = field(default_factory=list["SchemaNode"])
    choices: list[list[SchemaNode]] = field(default_factory=list[list["SchemaNode"]])
    tests: list[SchemaNode] = field(default_factory=list["SchemaNode"])
    fields: dict[str, SchemaNode] = field(default_factory=dict[str, "SchemaNode"])
    defaults: dict[str, Any] = field(default_factory=dict[str, Any])
    patterns: list[SchemaNode] = field(default_factory=list["SchemaNode"])
    additional: SchemaNode | None = None
    prefix: list[SchemaNode] = field(default_factory=list["SchemaNode"])
    items: SchemaNode | None = None
    members: list[SchemaNode] = field(default_factory=list["SchemaNode"])

    @property
    def in_place(self) -> Iterator[SchemaNode]:
        """Every subschema for the same value."""
        yield from self.always
        for options in self.choices:
            yield from options
        yield from self.tests


def build_graph(document: Data, resolver: Resolver) -> SchemaNode:
    """Return the root node of a document that is valid by its meta-schema.

    Raises ``UnsoundSchema`` if a reference has no target in the document, or if references are endless.
    """
    builder = _GraphBuilder(document, resolver.lookup("").draft)
    root = builder.node(document, resolver)
    builder.finish()
    measured: dict[SchemaNode, tuple[int, int]] = {}
    for node in builder.nodes:
        _measure(node, measured, 1)
    cache: dict[SchemaNode, tuple[Any] | None] = {}
    for node in builder.nodes:
        node.defaults = {name: default[0] for name, inner in node.fields.items() if (default := _default(inner, cache))}
    return root


class _GraphBuilder:
    """The graph of a document while it is built; ``draft`` is the validator's number for its dialect."""

    def __init__(self, document: Data, draft: int) -> None:
        from jsonschema_rs import Draft4, Draft7, Draft201909

        self.nodes: list[SchemaNode] = []
        self._waiting: list[tuple[SchemaNode, Resolver]] = []
        self._nodes_by_reference: dict[tuple[str, str], SchemaNode] = {}
        self._is_old = draft <= Draft7
        """Whether the dialect ignores all keywords beside a ``$ref``."""
        self._id = "id" if draft == Draft4 else "$id"
        self._dynamic = "$recursiveRef" if draft == Draft201909 else "$dynamicRef"
        """The keyword for references that may resolve to any anchor of their name; older dialects have none."""
        self._has_anchors = not self._is_old and _has_dynamic_anchor(document)
        self._bases: dict[str, None] = {}
        """The URIs of the documents inside this one, starting with its own."""
        self._anchors: set[tuple[str, str]] = set()
        """The dynamic anchors: name, and URI of the document."""
        self._new_anchors: list[tuple[str, Resolver]] = []
        self._anchored: dict[str, dict[str, SchemaNode]] = {}
        """The schemas at dynamic anchors, by name and URI."""
        self._dynamic_references: list[tuple[SchemaNode, SchemaNode, str]] = []
        """Nodes with dynamic references, the default target of each, and the name of the anchor."""

    def node(self, schema: object, resolver: Resolver) -> SchemaNode:
        if len(self.nodes) >= 100_000:
            raise UnsoundSchema("it should contain at most 100,000 schemas, including those that it refers to")
        # The validator refuses anything else, with a clearer message.
        mapping: Data = {"not": {}} if schema is False else {}
        if isinstance(schema, dict):
            mapping = cast("Data", schema)
        node = SchemaNode(mapping)
        self.nodes.append(node)
        inner_resolver = self._inner_resolver(mapping, resolver)
        self._bases[inner_resolver.base_uri] = None
        anchor = self._anchor_of(mapping)
        if anchor is not None and (anchor, inner_resolver.base_uri) not in self._anchors:
            self._anchors.add((anchor, inner_resolver.base_uri))
            self._new_anchors.append((anchor, inner_resolver))
        self._waiting.append((node, inner_resolver))
        return node

    def finish(self) -> None:
        """Add the subschemas of all nodes, until there are no new ones."""
        while self._waiting or self._new_anchors:
            if self._waiting:
                self._expand(*self._waiting.pop())
                continue
            anchor, resolver = self._new_anchors.pop()
            with suppress(_NoTarget):  # it is where the validator does not expect a schema
                self._anchored.setdefault(anchor, {})[resolver.base_uri] = self._target(f"#{anchor}", resolver)
        overriding = {anchor: self._overriding(anchor) for _, _, anchor in self._dynamic_references}
        for node, target, anchor in self._dynamic_references:
            is_dynamic = self._anchor_of(target.schema) == anchor
            node.tests.append((overriding[anchor] if is_dynamic else None) or target)

    def _anchor_of(self, schema: Data) -> str | None:
        """Return the name of a schema's dynamic anchor, if it has one; for ``$recursiveAnchor``, it is empty."""
        if self._dynamic == "$recursiveRef":
            return "" if schema.get("$recursiveAnchor") is True else None
        anchor = schema.get("$dynamicAnchor")
        return anchor if isinstance(anchor, str) and not self._is_old else None

    def _overriding(self, anchor: str) -> SchemaNode | None:
        """Return a node, shared by all references to a dynamic anchor, for their possible targets.

        The outermost document decides. ``$recursiveRef`` goes outwards only as long as each document has the anchor.
        """
        anchored = self._anchored.get(anchor, {})
        root = next(iter(self._bases))
        if root in anchored and (self._dynamic == "$dynamicRef" or anchored.keys() >= self._bases.keys()):
            return anchored[root]
        if len(anchored) < 2:
            return None
        node = SchemaNode({})
        node.tests = [*anchored.values()]
        return node

    def _expand(self, node: SchemaNode, resolver: Resolver) -> None:
        schema = node.schema

        def child(key: str) -> SchemaNode | None:
            subschema = schema.get(key)
            return self.node(cast("object", subschema), resolver) if isinstance(subschema, dict | bool) else None

        def children(key: str) -> list[SchemaNode]:
            subschemas = schema.get(key)
            return (
                [self.node(inner, resolver) for inner in cast("list[Any]", subschemas)]
                if isinstance(subschemas, list)
                else []
            )

        def children_by_name(key: str) -> dict[str, SchemaNode]:
            mapping = schema.get(key)
            subschemas = cast("dict[str, object]", mapping) if isinstance(mapping, dict) else {}
            # ``dependencies`` of an old dialect may be lists of names.
            return {
                name: self.node(subschema, resolver)
                for name, subschema in subschemas.items()
                if not isinstance(subschema, list)
            }

        def existing(*nodes: SchemaNode | None) -> list[SchemaNode]:
            return [node for node in nodes if node is not None]

        if isinstance(reference := schema.get("$ref"), str):
            node.always.append(self._target(reference, resolver))
            if self._is_old:
                return
        if not self._is_old and isinstance(reference := schema.get(self._dynamic), str):
            # It may resolve differently within a value, so no defaults are filled in through it.
            target = self._target(reference, resolver)
            self._dynamic_references.append((node, target, reference.partition("#")[2]))
        if self._has_anchors and isinstance(definitions := schema.get("$defs"), dict):
            for definition in cast("Data", definitions).values():
                if _has_dynamic_anchor(definition):  # a dynamic reference may lead there, even if no other does
                    self.node(definition, resolver)
        node.always += children("allOf")
        node.choices += [options for key in ("anyOf", "oneOf") if (options := children(key))]
        node.tests += existing(*map(child, ("not", "if", "then", "else")))
        node.tests += [*children_by_name("dependentSchemas").values(), *children_by_name("dependencies").values()]
        node.fields = children_by_name("properties")
        node.patterns = list(children_by_name("patternProperties").values())
        node.additional = child("additionalProperties")
        is_list = isinstance(schema.get("items"), list)
        node.prefix = children("items" if is_list else "prefixItems")
        node.items = child("additionalItems" if is_list else "items")
        node.members = existing(*map(child, ("contains", "unevaluatedItems", "unevaluatedProperties")))

    def _target(self, reference: str, resolver: Resolver) -> SchemaNode:
        key = (resolver.base_uri, reference)
        if key not in self._nodes_by_reference:
            self._nodes_by_reference[key] = self.node(*_resolve(resolver, reference))
        return self._nodes_by_reference[key]

    def _inner_resolver(self, schema: Data, resolver: Resolver) -> Resolver:
        """Return the resolver for the contents of a schema. An ``$id`` that is not a string is a field of that name."""
        from jsonschema_rs import ReferencingError

        address = schema.get(self._id)
        is_beside = self._is_old and isinstance(schema.get("$ref"), str)
        if isinstance(address, str) and not address.startswith("#") and not is_beside:
            with suppress(ReferencingError, ValueError):
                return resolver.lookup(address).resolver
        return resolver


def _has_dynamic_anchor(schema: object) -> bool:
    return any("$dynamicAnchor" in inner for inner in schemas_in(schema))


def _resolve(resolver: Resolver, reference: str) -> tuple[Any, Resolver]:
    from jsonschema_rs import ReferencingError

    is_meta = reference.startswith(_META_SCHEMAS)
    try:
        resolved = resolver.lookup(reference)
    except (ReferencingError, ValueError):
        if is_meta:
            return {}, resolver
        raise _NoTarget(
            f"its reference {reference[:200]!r} leads to nothing inside the document, and nothing is fetched"
        ) from None
    if is_meta and resolved.contents == _built_in(reference):
        return {}, resolver
    return resolved.contents, resolved.resolver


def _built_in(reference: str) -> object:
    """Return the built-in target of a reference: the one it has in a document without a schema at that URI."""
    from jsonschema_rs import ReferencingError, Registry

    try:
        return Registry([(BASE, {"$ref": reference})]).resolver(BASE).lookup(reference).contents
    except (ReferencingError, ValueError):
        return None


def _measure(node: SchemaNode, measured: dict[SchemaNode, tuple[int, int]], depth: int) -> tuple[int, int]:
    """Return the maximum length of a chain of schemas that ``node`` applies to one value, and the number of all."""
    if node in measured:
        return measured[node]
    inner = [_measure(child, measured, depth + 1) for child in node.in_place] if depth <= _MAX_CHAIN else []
    chain, count = 1 + max((chain for chain, _ in inner), default=0), 1 + sum(count for _, count in inner)
    if depth + chain > _MAX_CHAIN + 1:
        raise UnsoundSchema(
            f"it should apply at most {_MAX_CHAIN} schemas to one value in a chain; "
            "a reference may lead back to itself only through a field or an item"
        )
    if count > 10_000:  # nested references can make it 2**64 in a few lines
        raise UnsoundSchema("it should apply at most 10,000 schemas to one value")
    measured[node] = chain, count
    return chain, count


def _default(node: SchemaNode, cache: dict[SchemaNode, tuple[Any] | None]) -> tuple[Any] | None:
    """Return the default of a field or of the schema that it refers to, if any; ``cache`` caches the results."""
    if node not in cache:
        declared = (node.schema["default"],) if "default" in node.schema else None
        cache[node] = declared or next((default for inner in node.always if (default := _default(inner, cache))), None)
    return cache[node]
