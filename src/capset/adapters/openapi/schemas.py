"""Schemas of OpenAPI documents as JSON Schema 2020-12, with what they refer to as ``$defs`` (spec 7, M8)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import unquote

from capset.adapters.openapi.document import ApiDocument, Node, as_list, as_node
from capset.errors import DefinitionError

_MAX_SCHEMAS: Final = 500_000
"""The maximum number of schemas of a document, one within another counted as well."""
_MAX_REFERRED: Final = 2_000
"""The maximum number of schemas that one operation refers to."""
_MAX_NAME: Final = 80
_MAX_LEVELS: Final = 60
_MAX_EXAMPLE: Final = 500
"""The maximum length of an example or a default that the model is shown, as JSON."""
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
_REFUSED: Final = ("$id", "$dynamicRef", "$recursiveRef")
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """A schema that was referred to, translated, with the references in it."""

    schema: Any
    references: tuple[str, ...]


class SchemaLibrary:
    """The schemas of a document that are referred to, each translated once for all operations.

    Read-only fields are left out, since requests do not have them. A default is told in the description: the server
    fills it in, and a value that is sent could overwrite one. ``discriminator``, ``xml`` and extensions validate
    nothing.
    """

    def __init__(self, document: ApiDocument) -> None:
        self._document = document
        self._entries: dict[str, SchemaEntry | str] = {}
        self._count = 0

    def entry(self, reference: str) -> SchemaEntry:
        """Return what a reference leads to. Raises ``DefinitionError`` if it cannot be translated."""
        if reference not in self._entries:
            what, references = f"the schema {reference!r:.200}", dict[str, None]()
            try:
                schema = self.translated(what, self._document.at(what, reference), references)
                self._entries[reference] = SchemaEntry(schema, tuple(references))
            except DefinitionError as error:
                self._entries[reference] = error.message
        found = self._entries[reference]
        if isinstance(found, str):
            raise DefinitionError(found)
        return found

    def translated(self, what: str, schema: object, references: dict[str, None], level: int = 0) -> Any:
        """Return a schema as JSON Schema, an object or a bool, and add the references in it.

        Raises ``DefinitionError``, starting with ``what``, for one that is none.
        """
        self._count += 1
        if self._count > _MAX_SCHEMAS:
            raise DefinitionError(f"{what}: the document has more than {_MAX_SCHEMAS:,} schemas in what is selected")
        if level > _MAX_LEVELS:
            raise DefinitionError(f"{what}: it is nested more than {_MAX_LEVELS} levels deep")
        is_old = self._document.version == "3.0"
        if isinstance(schema, bool) and not is_old:
            return schema
        node = as_node(what, schema)
        if refused := [key for key in _REFUSED if isinstance(node.get(key), str)]:
            raise DefinitionError(f"{what}: it has {refused[0]}, which is not supported")
        found: dict[str, Any] = {}
        if "$ref" in node:
            self._document.at(what, reference := node["$ref"])
            references[reference] = None
            found["$ref"] = f"#/$defs/{name_of(reference)}"
            if is_old:  # nothing beside a reference counts
                return found
        found |= {key: node[key] for key in _KEPT if key in node}
        self._translate_parts(what, node, found, references, level)
        _annotate(node, found)
        return _modernised(node, found) if is_old else found

    def _translate_parts(
        self, what: str, node: Node, found: dict[str, Any], references: dict[str, None], level: int
    ) -> None:
        for key, value in node.items():
            if key in _ONE:
                is_bool = isinstance(value, bool)
                found[key] = value if is_bool else self.translated(what, value, references, level + 1)
            elif key in _SEVERAL:
                parts = as_list(f"{what}: {key}", value)
                found[key] = [self.translated(what, one, references, level + 1) for one in parts]
            elif key in _NAMED:
                inner = as_node(f"{what}: {key}", value)
                if key == "properties":
                    inner = {name: one for name, one in inner.items() if not self._is_read_only(what, one)}
                found[key] = {name: self.translated(what, one, references, level + 1) for name, one in inner.items()}
        if "required" in found and "properties" in node:
            gone = as_node(what, node["properties"]).keys() - found["properties"].keys()
            required = [
                one
                for one in as_list(f"{what}: required", found["required"])
                if not (isinstance(one, str) and one in gone)
            ]
            found["required"] = required
            if not required:  # 3.0 has it with one name at least
                del found["required"]

    def _is_read_only(self, what: str, schema: object) -> bool:
        if not isinstance(schema, Mapping):
            return False
        node = cast("Node", schema)
        if node.get("readOnly") is True and ("$ref" not in node or self._document.version != "3.0"):
            return True
        return "$ref" in node and self._document.resolved(what, node).get("readOnly") is True


class OperationSchemas:
    """The schemas of one operation, and those of the library that they refer to."""

    def __init__(self, library: SchemaLibrary) -> None:
        self._library = library
        self._references: dict[str, None] = {}

    def translated(self, what: str, schema: object) -> Any:  # a JSON Schema: an object or a bool
        """Return a schema as JSON Schema. Raises ``DefinitionError``, starting with ``what``, for one that is none."""
        return self._library.translated(f"{what}: its schema", schema, self._references)

    def referred(self) -> dict[str, Any]:
        """Return what the schemas translated so far refer to, and what that refers to, by name in ``$defs``."""
        found: dict[str, Any] = {}
        waiting, seen = list(self._references), set(self._references)
        while waiting:
            entry = self._library.entry(reference := waiting.pop())
            if found.setdefault(name_of(reference), entry.schema) is not entry.schema:
                raise DefinitionError(f"two of its schemas have one name: {reference!r:.200} is one of them")
            if len(found) > _MAX_REFERRED:
                raise DefinitionError(f"it refers to more than {_MAX_REFERRED:,} schemas")
            new = [one for one in entry.references if one not in seen]
            waiting += new
            seen.update(new)
        return dict(sorted(found.items()))


def name_of(reference: str) -> str:
    """Return the name in ``$defs`` of what a reference leads to: its own in the components, or else all of its path.

    It depends on nothing else, so that the pin of an operation does not change with others.
    """
    path = unquote(reference).removeprefix("#/")
    own = path.removeprefix("components/schemas/")
    name = _NO_NAME.sub("_", own if "/" not in own else path)
    if name == own and len(name) <= _MAX_NAME:
        return name
    return f"{name[: _MAX_NAME - 9]}_{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def _annotate(node: Node, found: dict[str, Any]) -> None:
    if node.get("format") == "password":
        found["writeOnly"] = True  # records have it redacted
    examples: object = [node["example"]] if "example" in node else node.get("examples")
    if isinstance(examples, list) and len(_text_of(cast("object", examples))) <= _MAX_EXAMPLE:
        found["examples"] = examples
    if "default" in node and len(text := _text_of(node["default"])) <= _MAX_EXAMPLE:
        said = found.get("description")
        said = f"{said.rstrip()} " if isinstance(said, str) and said.strip() else ""
        found["description"] = f"{said}Default: {text}."


def _text_of(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _modernised(node: Node, found: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of 3.0 with the keywords of 2020-12.

    ``nullable`` allows null wherever it stands, also beside ``enum`` and ``allOf``: documents mean that.
    """
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(found.get(exclusive), bool) and found.pop(exclusive) and limit in found:
            found[exclusive] = found.pop(limit)
    if node.get("nullable") is not True:
        return found
    kind, enum = found.get("type"), found.get("enum")
    if isinstance(kind, str) and not any(key in found for key in ("allOf", "anyOf", "oneOf", "not")):
        found["type"] = [kind, "null"]
        if isinstance(enum, list) and None not in enum:
            found["enum"] = [*cast("list[Any]", enum), None]
        return found
    told = {key: found.pop(key) for key in ("title", "description") if key in found}
    return {**told, "anyOf": [found, {"type": "null"}]}
