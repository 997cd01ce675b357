"""OpenAPI schemas as JSON Schema 2020-12, with the schemas that they refer to in ``$defs`` (spec 7, M8, M105)."""

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
"""The maximum number of schemas of a document, including nested ones."""
_MAX_REFERRED: Final = 2_000
"""The maximum number of schemas that one operation may refer to."""
_MAX_NAME: Final = 80
_MAX_LEVELS: Final = 60
_MAX_EXAMPLE: Final = 500
"""The maximum length of an example or default that models see, as JSON."""
_TYPES: Final[Mapping[str, type]] = {
    **dict.fromkeys(("title", "description", "format", "contentEncoding", "contentMediaType"), str),
    **dict.fromkeys(("deprecated", "writeOnly", "readOnly"), bool),
    "required": list,  # before draft 4, a bool in each field
}
"""Keywords that are left out if their values have other types."""
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
"""The suffix of a reference to a parent without its options. It occurs in no document."""
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """A referenced schema, translated, and the references in it."""

    schema: Any
    references: tuple[str, ...]
    is_recursive_anchor: bool = False


class SchemaLibrary:
    """The referenced schemas of a document, each translated once for all operations.

    Read-only fields are left out, since requests do not have them. A default is mentioned in the description only: the
    server fills it in, and sending it could overwrite an existing value. ``discriminator``, ``xml`` and extensions
    validate nothing. If an option of a parent with a ``discriminator`` refers back to the parent, it gets the parent
    without its options.
    """

    def __init__(self, document: ApiDocument) -> None:
        self._document = document
        self._entries: dict[str, SchemaEntry | str] = {}
        self._options: dict[str, frozenset[str]] = {}
        self._anchors: dict[str, list[str]] | None = None
        self._entry: str | None = None
        """The reference to the schema that is being translated."""
        self._count = 0

    def entry(self, reference: str) -> SchemaEntry:
        """Return the target of a reference. Raises ``DefinitionError`` if it cannot be translated."""
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
        """Return a schema as JSON Schema, an object or a bool, and add its references to ``references``.

        ``is_in_place``: whether it applies to the same value as the referenced schema that contains it.

        Raises ``DefinitionError``, starting with ``label``, for an invalid schema.
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
            target = cast("str", reference)  # checked by ``at``
            if is_in_place and self._entry in self._options_of(target):
                target += _BARE
            references[target] = None
            translation["$ref"] = f"#/$defs/{name_of(target)}"
            if is_old:  # everything beside a reference is ignored
                return translation
        translation |= {key: node[key] for key in _KEPT if key in node}
        self._translate_parts(label, node, translation, references, level, is_in_place=is_in_place)
        _annotate(node, translation)
        return _modernised(node, translation) if is_old else translation

    def _reference(self, label: str, node: Node) -> Any:  # any JSON
        """Return the reference of a schema, if it has one. Recursive and dynamic ones become plain references.

        Raises ``DefinitionError`` if the target of such a reference is not certain.
        """
        if "$ref" in node:
            return node["$ref"]
        if isinstance(node.get("$recursiveRef"), str):
            # In a document, # means the component that contains the reference: that is how such references are used.
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
        """Return the references to the components' schemas that have an anchor, by ``#`` and the anchor."""
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
        """Return the in-place references in the options of a parent with a ``discriminator``, except to itself."""
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
                        with suppress(DefinitionError):  # reported where it is translated
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
            if not required:  # 3.0 requires at least one name
                del translation["required"]

    def _is_read_only(self, label: str, schema: object) -> bool:
        if not isinstance(schema, Mapping):
            return False
        node = cast("Node", schema)
        if node.get("readOnly") is True and ("$ref" not in node or self._document.version == "3.1"):
            return True
        return "$ref" in node and self._document.resolved(label, node).get("readOnly") is True


class OperationSchemas:
    """The schemas of one operation, and the library's schemas that they refer to."""

    def __init__(self, library: SchemaLibrary) -> None:
        self._library = library
        self._references: dict[str, None] = {}

    def translated(self, label: str, schema: object) -> Any:  # a JSON Schema: an object or a bool
        """Return a schema as JSON Schema. Raises ``DefinitionError``, starting with ``label``, if it is invalid."""
        return self._library.translated(f"{label}: its schema", schema, self._references)

    def trial(self) -> OperationSchemas:
        """Return a separate collection, to be added with ``add`` or dropped."""
        return OperationSchemas(self._library)

    def add(self, trial: OperationSchemas) -> None:
        """Add the schemas of a trial. Raises ``DefinitionError``, adding none, if a reference cannot be resolved."""
        trial.referred()
        self._references |= trial._references

    def depths(self, schema: object) -> tuple[Depth, Depth]:
        """Return the minimum and maximum depth of a translated schema's values. Raises ``DefinitionError``."""
        return depths_of(schema, self.referred())

    def referred(self) -> dict[str, Any]:
        """Return all schemas that those translated so far refer to, also indirectly, by name in ``$defs``."""
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
    """Return the name in ``$defs`` for a reference: that of the component, or else one made of the whole path.

    It depends on nothing else, so that the pin of an operation does not change with other operations.
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
        schema["writeOnly"] = True  # so that records redact it
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
    """Return a schema without meaningless members, and with exclusive limits as in 2020-12."""
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
    """Return the value of a keyword without nulls. Among types, null means the type, as in YAML without quotes."""
    if isinstance(value, list) and key in ("type", *_SEVERAL):
        parts = cast("list[Any]", value)
        return ["null" if part is None else part for part in parts if part is not None or key == "type"]
    if isinstance(value, Mapping) and key in _NAMED:
        nothing: dict[str, Any] = {}
        return {name: nothing if part is None else part for name, part in cast("Node", value).items()}
    return cast("Any", value)


def _modernised(node: Node, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows null if ``nullable`` of 3.0, or ``x-nullable`` of 2.0, does.

    Both allow null also beside ``enum`` and ``allOf``, as documents intend.
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
