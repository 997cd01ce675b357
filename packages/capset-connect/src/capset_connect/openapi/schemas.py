"""Schemas of OpenAPI documents as JSON Schema 2020-12, with what they refer to as ``$defs`` (spec 7, M8, M105)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import quote, unquote

from capset.errors import DefinitionError
from capset_connect.openapi.depths import Depth, depths_of
from capset_connect.openapi.document import ApiDocument
from capset_connect.openapi.nodes import Node, as_list, as_node

_MAX_SCHEMAS: Final = 500_000
"""The maximum number of schemas of a document, one within another counted as well."""
_MAX_REFERRED: Final = 2_000
"""The maximum number of schemas that one operation refers to."""
_MAX_NAME: Final = 80
_MAX_LEVELS: Final = 60
_MAX_EXAMPLE: Final = 500
"""The maximum length of an example or a default that the model is shown, as JSON."""
_TYPES: Final[Mapping[str, type]] = {
    **dict.fromkeys(("title", "description", "format", "contentEncoding", "contentMediaType"), str),
    **dict.fromkeys(("deprecated", "writeOnly", "readOnly"), bool),
    "required": list,  # of a field it is true or false in drafts before 4
}
"""Keywords that are left out if their values have other types than these."""
_NULLABLE: Final = frozenset({"const", "default", "example"})
"""Keywords whose values may be null."""
_OWN_NAME: Final = re.compile(r"(?:components/schemas|definitions)/([^/]*)")
_ONE: Final = frozenset(
    {
        *("not", "if", "then", "else", "propertyNames", "contains", "contentSchema"),
        *("items", "unevaluatedItems", "additionalProperties", "unevaluatedProperties"),
    }
)
_SEVERAL: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas")
_KEPT: Final = (
    *("type", "enum", "const", "title", "description", "format", "pattern", "required", "deprecated"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties"),
    *("dependentRequired", "contentEncoding", "contentMediaType", "writeOnly"),
)
_IN_PLACE: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
"""The keywords whose schemas apply to the same value."""
_COMPONENTS: Final = "#/components/schemas/"
_BARE: Final = "#bare"
"""The end of a reference to a parent without its options, which no document has."""
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """A schema that was referred to, translated, with the references in it."""

    schema: Any
    references: tuple[str, ...]
    is_recursive_anchor: bool = False


class SchemaLibrary:
    """The schemas of a document that are referred to, each translated once for all operations.

    Read-only fields are left out, since requests do not have them. A default is told in the description: the server
    fills it in, and a value that is sent could overwrite one. ``discriminator``, ``xml`` and extensions validate
    nothing; but a parent with a ``discriminator`` whose options refer back to it is without its options there.
    """

    def __init__(self, document: ApiDocument) -> None:
        self._document = document
        self._entries: dict[str, SchemaEntry | str] = {}
        self._options: dict[str, frozenset[str]] = {}
        self._anchors: dict[str, list[str]] | None = None
        self._entry: str | None = None
        """The reference to the schema that is translated."""
        self._count = 0

    def entry(self, reference: str) -> SchemaEntry:
        """Return what a reference leads to. Raises ``DefinitionError`` if it cannot be translated."""
        if reference not in self._entries:
            label, references = f"the schema {reference!r:.200}", dict[str, None]()
            self._entry = reference.removesuffix(_BARE)
            try:
                node = self._document.at(label, self._entry)
                if reference != self._entry:
                    node = {key: value for key, value in node.items() if key not in ("oneOf", "anyOf")}
                schema = self.translated(label, node, references)
                is_anchor = isinstance(node, Mapping) and cast("Node", node).get("$recursiveAnchor") is True
                self._entries[reference] = SchemaEntry(schema, tuple(references), is_anchor)
            except DefinitionError as error:
                self._entries[reference] = error.message
            self._entry = None
        cached = self._entries[reference]
        if isinstance(cached, str):
            raise DefinitionError(cached)
        return cached

    def translated(
        self, label: str, schema: object, references: dict[str, None], level: int = 0, *, is_in_place: bool = True
    ) -> Any:
        """Return a schema as JSON Schema, an object or a bool, and add the references in it.

        ``is_in_place`` is whether it applies to the same value as the schema that was referred to.

        Raises ``DefinitionError``, starting with ``label``, for one that is none.
        """
        self._count += 1
        if self._count > _MAX_SCHEMAS:
            raise DefinitionError(f"{label}: the document has more than {_MAX_SCHEMAS:,} schemas in what is selected")
        if level > _MAX_LEVELS:
            raise DefinitionError(f"{label}: it is nested more than {_MAX_LEVELS} levels deep")
        is_old = self._document.version != "3.1"
        if isinstance(schema, bool) and not is_old:
            return schema
        node = _cleaned(as_node(label, schema))
        if isinstance(node.get("$id"), str):
            raise DefinitionError(f"{label}: it has $id, which is not supported")
        translation: dict[str, Any] = {}
        reference = self._reference(label, node)
        if reference is not None or "$ref" in node:
            self._document.at(label, reference)
            target = cast("str", reference)  # the document has said so
            if is_in_place and self._entry in self._options_of(target):
                target += _BARE
            references[target] = None
            translation["$ref"] = f"#/$defs/{name_of(target)}"
            if is_old:  # nothing beside a reference counts
                return translation
        translation |= {key: node[key] for key in _KEPT if key in node}
        self._translate_parts(label, node, translation, references, level, is_in_place=is_in_place)
        _annotate(node, translation)
        return _modernised(node, translation) if is_old else translation

    def _reference(self, label: str, node: Node) -> Any:  # JSON of any type, as the document has it
        """Return the reference of a schema, if it has one. A recursive or dynamic one that nothing overrides is plain.

        Raises ``DefinitionError`` for one of which that cannot be said.
        """
        if "$ref" in node:
            return node["$ref"]
        if isinstance(node.get("$recursiveRef"), str):
            # In a document, # is the component that it stands in: that is what such references are written for.
            if self._entry is None or not self._entry.startswith(_COMPONENTS):
                raise DefinitionError(f"{label}: it has $recursiveRef outside of the schemas of components")
            return "/".join(self._entry.split("/")[:4])
        dynamic = node.get("$dynamicRef")
        if not isinstance(dynamic, str):
            return None
        if dynamic.startswith("#/"):
            return dynamic
        places = self._anchored().get(dynamic, [])
        if len(places) == 1:
            return places[0]
        many = f"{len(places)} schemas have" if places else "no schema has"
        raise DefinitionError(f"{label}: its $dynamicRef is {dynamic!r:.80}, and {many} that anchor; one is expected")

    def _anchored(self) -> Mapping[str, list[str]]:
        """Return the references to the components' schemas that have an anchor, by the anchor as references have it."""
        if self._anchors is None:
            self._anchors = {}
            components = self._document.data.get("components")
            schemas = cast("Node", components).get("schemas") if isinstance(components, Mapping) else None
            waiting: list[tuple[str, object]] = [(_COMPONENTS.rstrip("/"), schemas)]
            while waiting:
                place, value = waiting.pop()
                members: Mapping[Any, Any] = {}
                if isinstance(value, Mapping):
                    members = cast("Node", value)
                    if isinstance(anchor := members.get("$dynamicAnchor", members.get("$anchor")), str):
                        self._anchors.setdefault(f"#{anchor}", []).append(place)
                elif isinstance(value, list):
                    members = dict(enumerate(cast("list[object]", value)))
                for key, inner in members.items():
                    step = quote(str(key).replace("~", "~0").replace("/", "~1"), safe="~")
                    waiting.append((f"{place}/{step}", inner))
        return self._anchors

    def _options_of(self, parent: str) -> frozenset[str]:
        """Return what the options of a parent with a ``discriminator`` refer to for the same value, but for itself."""
        if parent not in self._options:
            options: set[str] = set()
            waiting: list[object] = []
            node: object = self._document.at("a parent", parent)
            if isinstance(node, Mapping) and "discriminator" in node:
                waiting = [{key: value for key, value in cast("Node", node).items() if key in ("oneOf", "anyOf")}]
            while waiting:
                part = waiting.pop()
                if isinstance(part, list):
                    waiting += cast("list[object]", part)
                elif isinstance(part, Mapping):
                    members = cast("Node", part)
                    waiting += [members[key] for key in ("allOf", "anyOf", "oneOf") if key in members]
                    reference = members.get("$ref")
                    if isinstance(reference, str) and reference != parent and reference not in options:
                        options.add(reference)
                        with suppress(DefinitionError):  # it is named where it is translated
                            waiting.append(self._document.at("an option", reference))
            self._options[parent] = frozenset(options)
        return self._options[parent]

    def _translate_parts(
        self,
        label: str,
        node: Node,
        translation: dict[str, Any],
        references: dict[str, None],
        level: int,
        *,
        is_in_place: bool,
    ) -> None:
        def translated(key: str, schema: object) -> Any:
            in_place = is_in_place and key in _IN_PLACE
            return self.translated(label, schema, references, level + 1, is_in_place=in_place)

        for key, value in node.items():
            if key in _ONE:
                translation[key] = value if isinstance(value, bool) else translated(key, value)
            elif key in _SEVERAL:
                translation[key] = [translated(key, part) for part in as_list(f"{label}: {key}", value)]
            elif key in _NAMED:
                inner = as_node(f"{label}: {key}", value)
                if key == "properties":
                    inner = {name: member for name, member in inner.items() if not self._is_read_only(label, member)}
                translation[key] = {name: translated(key, member) for name, member in inner.items()}
        if "required" in translation and "properties" in node:
            gone = as_node(label, node["properties"]).keys() - translation["properties"].keys()
            required = [
                name
                for name in as_list(f"{label}: required", translation["required"])
                if not (isinstance(name, str) and name in gone)
            ]
            translation["required"] = required
            if not required:  # 3.0 has it with one name at least
                del translation["required"]

    def _is_read_only(self, label: str, schema: object) -> bool:
        if not isinstance(schema, Mapping):
            return False
        node = cast("Node", schema)
        if node.get("readOnly") is True and ("$ref" not in node or self._document.version == "3.1"):
            return True
        return "$ref" in node and self._document.resolved(label, node).get("readOnly") is True


class OperationSchemas:
    """The schemas of one operation, and those of the library that they refer to."""

    def __init__(self, library: SchemaLibrary) -> None:
        self._library = library
        self._references: dict[str, None] = {}

    def translated(self, label: str, schema: object) -> Any:  # a JSON Schema: an object or a bool
        """Return a schema as JSON Schema. Raises ``DefinitionError``, starting with ``label``, for one that is none."""
        return self._library.translated(f"{label}: its schema", schema, self._references)

    def trial(self) -> OperationSchemas:
        """Return a place for schemas that may be of no use, to be added or dropped."""
        return OperationSchemas(self._library)

    def add(self, trial: OperationSchemas) -> None:
        """Add the schemas of a trial. Raises ``DefinitionError``, adding none, if one refers to what cannot be had."""
        trial.referred()
        self._references |= trial._references

    def depths(self, schema: object) -> tuple[Depth, Depth]:
        """Return how deep the values of a translated schema are, at least and at most. Raises ``DefinitionError``."""
        return depths_of(schema, self.referred())

    def referred(self) -> dict[str, Any]:
        """Return what the schemas translated so far refer to, and what that refers to, by name in ``$defs``."""
        definitions: dict[str, Any] = {}
        waiting, visited = list(self._references), set(self._references)
        while waiting:
            entry = self._library.entry(reference := waiting.pop())
            if definitions.setdefault(name_of(reference), entry.schema) is not entry.schema:
                raise DefinitionError(f"two of its schemas have one name: {reference!r:.200} is one of them")
            if len(definitions) > _MAX_REFERRED:
                raise DefinitionError(f"it refers to more than {_MAX_REFERRED:,} schemas")
            new = [target for target in entry.references if target not in visited]
            waiting += new
            visited.update(new)
        self._check_recursion(visited)
        return dict(sorted(definitions.items()))

    def _check_recursion(self, references: set[str]) -> None:
        """Raise ``DefinitionError`` if one of these schemas overrides the recursive reference of another."""
        anchors = [reference for reference in references if self._library.entry(reference).is_recursive_anchor]
        for anchor in anchors if len(anchors) > 1 else ():
            waiting, reached = [anchor], {anchor}
            while waiting:
                new = {*self._library.entry(waiting.pop()).references} - reached
                waiting += new
                reached |= new
            for other in sorted(reached.intersection(anchors) - {anchor}):
                if other in self._library.entry(other).references:
                    raise DefinitionError(
                        f"the $recursiveAnchor of {anchor!r:.200} overrides the $recursiveRef of {other!r:.200}, which "
                        "is not supported"
                    )


def name_of(reference: str) -> str:
    """Return the name in ``$defs`` of what a reference leads to: its own in the components, or else all of its path.

    It depends on nothing else, so that the pin of an operation does not change with others.
    """
    path = unquote(reference).removeprefix("#/")
    component = _OWN_NAME.fullmatch(path)
    base = component[1] if component else path
    name = _NO_NAME.sub("_", base)
    if name == base and len(name) <= _MAX_NAME:
        return name
    return f"{name[: _MAX_NAME - 9]}_{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def _annotate(node: Node, schema: dict[str, Any]) -> None:
    if node.get("format") == "password":
        schema["writeOnly"] = True  # records have it redacted
    examples: object = [node["example"]] if "example" in node else node.get("examples")
    if isinstance(examples, list) and len(_text_of(cast("object", examples))) <= _MAX_EXAMPLE:
        schema["examples"] = examples
    if "default" in node and len(text := _text_of(node["default"])) <= _MAX_EXAMPLE:
        description = schema.get("description")
        description = f"{description.rstrip()} " if isinstance(description, str) and description.strip() else ""
        schema["description"] = f"{description}Default: {text}."


def _text_of(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cleaned(node: Node) -> Node:
    """Return a schema without members that say nothing, and with limits as 2020-12 has them."""
    cleaned: dict[str, Any] = {
        key: _without_null(key, value)
        for key, value in node.items()
        if (value is not None or key in _NULLABLE) and isinstance(value, _TYPES.get(key, object))
    }
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(cleaned.get(exclusive), bool) and cleaned.pop(exclusive) and limit in cleaned:
            cleaned[exclusive] = cleaned.pop(limit)
    return cleaned


def _without_null(key: str, value: Any) -> Any:  # JSON
    """Return the value of a keyword without null in it; among types it is that of YAML without quotes."""
    if isinstance(value, list) and key in ("type", *_SEVERAL):
        parts = cast("list[Any]", value)
        return ["null" if part is None else part for part in parts if part is not None or key == "type"]
    if isinstance(value, Mapping) and key in _NAMED:
        nothing: dict[str, Any] = {}
        return {name: nothing if part is None else part for name, part in cast("Node", value).items()}
    return cast("Any", value)


def _modernised(node: Node, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of 3.0 that allows null, if ``nullable`` or ``x-nullable`` of 2.0 does.

    They allow null wherever they stand, also beside ``enum`` and ``allOf``: documents mean that.
    """
    if node.get("nullable") is not True and node.get("x-nullable") is not True:
        return schema
    kind, enum = schema.get("type"), schema.get("enum")
    if isinstance(kind, str) and not any(key in schema for key in ("allOf", "anyOf", "oneOf", "not")):
        schema["type"] = [kind, "null"]
        if isinstance(enum, list) and None not in enum:
            schema["enum"] = [*cast("list[Any]", enum), None]
        return schema
    headings = {key: schema.pop(key) for key in ("title", "description") if key in schema}
    return {**headings, "anyOf": [schema, {"type": "null"}]}
