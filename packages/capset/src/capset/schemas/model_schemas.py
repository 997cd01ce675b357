"""Conversion of argument schemas to the form that model providers accept, and of arguments back (spec 3, K26).

A provider rejects a whole request if it does not accept the schema of one tool. All providers accept the form that is
generated here. They reject:

- Anthropic: ``allOf``, ``anyOf`` and ``oneOf`` at the top; argument names that do not match ``[a-zA-Z0-9_.-]{1,64}``,
  at the top only; and anything that is not in JSON Schema 2020-12.
- OpenAI: these keywords, ``not`` and ``enum`` at the top; a type other than ``object`` there; an object without
  ``properties`` there; and an array without ``items`` anywhere. In strict mode, a few more keywords.
- Google: an array without ``items`` anywhere.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote

from capset.schemas.schema import schemas_in

Data: TypeAlias = dict[str, Any]
"""A JSON Schema."""
ARGUMENTS: Final = "arguments"
"""The single argument of a wrapped schema, whose value is the arguments themselves."""
_REJECTED_AT_TOP: Final = ("allOf", "anyOf", "oneOf", "not", "enum", "const", "$ref")
"""The keywords that providers reject at the top, or that define the type of the arguments elsewhere."""
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_INVALID_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9.-]+")
_NOT_STRICT: Final = frozenset({"allOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired"})
_WITHOUT_NAMES: Final = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "minProperties", "maxProperties"),
        *("title", "description", "deprecated", "$schema", "$comment", "$defs", "definitions"),
    }
)
"""The keywords beside which arguments can be renamed, since none but the properties refers to them by name."""
_DEFINITIONS: Final = ("$defs", "definitions")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_OLDER_DIALECT: Final = re.compile(r"https?://json-schema\.org/(draft-0[467]|draft/2019-09)/schema#?")
_MOVED_PARTS: Final = re.compile(r"/(items|additionalItems|dependencies)(/|$)")
"""Matches references to a part that is at another place in 2020-12."""
_LIMITS: Final = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))


@dataclass(frozen=True, slots=True)
class ModelSchema:
    """A schema of arguments in the form that providers accept. Restored arguments fit the tool's own schema."""

    json_schema: Data
    """The schema, which must not be modified; the tool's own if providers accept that."""
    names: Mapping[str, str]
    """The original names of renamed arguments, by their new names."""
    is_wrapped: bool
    """Whether the arguments are wrapped in a single argument, ``arguments``."""
    may_be_strict: bool
    """Whether OpenAI's strict mode supports all of its keywords."""

    def restore(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert a model's arguments back to the tool's own schema.

        Arguments that do not have the form of ``json_schema`` are returned unchanged, for the kernel to validate.
        """
        if self.is_wrapped:
            inner = arguments.get(ARGUMENTS)
            is_wrapper = len(arguments) == 1 and isinstance(inner, Mapping)
            return cast("Mapping[str, Any]", inner) if is_wrapper else arguments
        restored = {self.names.get(name, name): value for name, value in arguments.items()}
        return restored if len(restored) == len(arguments) else arguments


def model_schema(json_schema: Data) -> ModelSchema:
    """Convert a schema of arguments to the form that providers accept.

    Arguments whose names are rejected are renamed. A schema that is rejected at its top is wrapped in a single
    argument, ``arguments``; so is one whose arguments cannot be renamed, since other keywords refer to them by name.
    """
    schema = _with_items(_to_2020_12(json_schema))
    names: dict[str, str] = {}
    is_wrapped = bool(refused_keywords(schema))
    if not is_wrapped and (refused := refused_names(schema)):
        names = _new_names(schema, refused)
        is_wrapped = not names
    published = _object(_wrapped(schema) if is_wrapped else _renamed(schema, names))
    may_be_strict = all(map(_NOT_STRICT.isdisjoint, schemas_in(published)))
    own_names = MappingProxyType({new: name for name, new in names.items()})
    return ModelSchema(json_schema if published == json_schema else published, own_names, is_wrapped, may_be_strict)


def refused_keywords(schema: Mapping[str, Any]) -> list[str]:
    """Return the keywords at the top of a schema that a provider rejects there."""
    return [key for key in _REJECTED_AT_TOP if key in schema]


def refused_names(schema: Mapping[str, Any]) -> list[str]:
    """Return the argument names that a provider rejects."""
    return [name for name in schema.get("properties", {}) if not _NAME.fullmatch(name)]


def _object(schema: Data) -> Data:
    """Return a schema with the top-level ``type`` and ``properties`` that providers require."""
    if schema.get("type") != "object":
        schema = {**schema, "type": "object"}
    return schema if "properties" in schema else {**schema, "properties": {}}


def _with_items(schema: Data) -> Data:
    """Return a schema in which every array has ``items``, if only ``{}``."""
    schemas = [*schemas_in(schema)]
    if any("unevaluatedItems" in inner for inner in schemas):  # it would no longer apply beside ``items``
        return schema
    if any(map(_lacks_items, schemas)):
        schema = deepcopy(schema)
        for inner in filter(_lacks_items, [*schemas_in(schema)]):
            inner["items"] = {}
    return schema


def _lacks_items(schema: Data) -> bool:
    kinds = schema.get("type")
    return "items" not in schema and (kinds == "array" or (isinstance(kinds, list) and "array" in kinds))


def _new_names(schema: Data, refused: list[str]) -> dict[str, str]:
    """Return new names for arguments, by the old ones; none if other keywords than ``properties`` refer to them.

    A new name does not depend on the order of the others.
    """
    properties: Data = schema["properties"]
    references = [inner[key] for inner in schemas_in(schema) for key in _REFERENCES if isinstance(inner.get(key), str)]
    if (
        not _WITHOUT_NAMES.issuperset(key for key in schema if not key.startswith("x-"))
        or not isinstance(schema.get("additionalProperties", True), bool)
        or not properties.keys() >= {*schema.get("required", ())}
        or not all(map(_is_to_definition, references))
    ):
        return {}
    plain = {name: _INVALID_CHARACTERS.sub("_", name).strip("_") for name in refused}
    counts = Counter(plain.values())
    names = {
        name: new if counts[new] == 1 and new not in properties and _NAME.fullmatch(new) else _with_digest(new, name)
        for name, new in plain.items()
    }
    new_names = {*names.values()}
    return names if len(new_names) == len(names) and new_names.isdisjoint(properties) else {}


def _with_digest(new: str, name: str) -> str:
    digits = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{new[:55] or 'argument'}_{digits}"


def _renamed(schema: Data, names: Mapping[str, str]) -> Data:
    """Rename arguments of a schema. If there are any, others are refused, so that each argument has only one name."""
    if not names:
        return schema
    properties = {
        names.get(name, name): _with_original_name(name, inner) if name in names else inner
        for name, inner in cast("Data", schema["properties"]).items()
    }
    renamed = {**schema, "properties": properties, "additionalProperties": False}
    if "required" in schema:
        renamed["required"] = [names.get(name, name) for name in schema["required"]]
    return renamed


def _with_original_name(name: str, schema: object) -> object:
    """Add the original name of an argument to its description, since other texts use that name."""
    if schema is False:
        return schema
    annotated: Data = dict(cast("Data", schema)) if isinstance(schema, dict) else {}
    description = annotated.get("description")
    return {**annotated, "description": f"{name}: {description}" if description else name}


def _wrapped(schema: Data) -> Data:
    """Return the schema of a single argument that contains the arguments. References keep their targets."""
    schema = deepcopy(schema)
    dialect = {"$schema": schema.pop("$schema")} if "$schema" in schema else {}
    definitions: Data = {}
    schemas = {id(inner): inner for inner in schemas_in(schema)}.values()  # one may occur in several places
    if any(isinstance(inner.get("$id"), str) or "$recursiveRef" in inner for inner in schemas):
        # An id makes it a separate document, in which references keep their targets.
        schema.setdefault("$id", "capset:/arguments")
    else:
        # Most providers support definitions at the top only.
        for inner in schemas:
            for key in _REFERENCES:
                reference = inner.get(key)
                if isinstance(reference, str) and _is_pointer(reference) and not _is_to_definition(reference):
                    inner[key] = f"#/properties/{ARGUMENTS}{reference[1:]}"
        definitions = {key: schema.pop(key) for key in _DEFINITIONS if key in schema}
    return {
        **dialect,
        "type": "object",
        "properties": {ARGUMENTS: schema if schema.get("type") == "object" else {**schema, "type": "object"}},
        "required": [ARGUMENTS],
        "additionalProperties": False,
        **definitions,
    }


def _is_pointer(reference: str) -> bool:
    return reference == "#" or reference.startswith("#/")


def _is_to_definition(reference: str) -> bool:
    return unquote(reference).startswith(("#/$defs/", "#/definitions/"))


def _to_2020_12(schema: Data) -> Data:
    """Convert a schema of an older dialect to 2020-12.

    A schema is left unchanged if it refers to a part that has another place in 2020-12, or contains a recursive
    reference or ``unevaluatedItems``, for which other items count.
    """
    dialect = schema.get("$schema")
    if not isinstance(dialect, str) or not _OLDER_DIALECT.fullmatch(dialect):
        return schema
    modern = deepcopy(schema)
    del modern["$schema"]
    schemas = [*schemas_in(modern)]
    if any(map(_is_unconvertible, schemas)):
        return schema
    for inner in schemas:
        if "2019-09" not in dialect:
            _drop_ignored_siblings(inner)
            if isinstance(schema_id := inner.pop("id" if "draft-04" in dialect else "$id", None), str):
                inner.update({"$anchor": schema_id[1:]} if schema_id.startswith("#") else {"$id": schema_id})
        _convert_keywords(inner)
    return modern


def _is_unconvertible(schema: Data) -> bool:
    reference = schema.get("$ref")
    is_moved = isinstance(reference, str) and _MOVED_PARTS.search(reference) is not None
    return is_moved or "$recursiveRef" in schema or "unevaluatedItems" in schema


def _drop_ignored_siblings(schema: Data) -> None:
    """Remove the keywords beside a reference that 2020-12 applies and older dialects ignore."""
    if isinstance(schema.get("$ref"), str):
        for key in schema.keys() - {"$ref", "title", "description", *_DEFINITIONS}:
            del schema[key]


def _convert_keywords(schema: Data) -> None:
    """Convert the keywords of a schema that have another form or name in 2020-12."""
    additional_items = schema.pop("additionalItems", None)
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        if additional_items is not None:
            schema["items"] = additional_items
    for limit, exclusive in _LIMITS:
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and limit in schema:
            schema[exclusive] = schema.pop(limit)
    dependencies = schema.pop("dependencies", None)
    for name, needed in cast("Data", dependencies).items() if isinstance(dependencies, dict) else ():
        schema.setdefault("dependentRequired" if isinstance(needed, list) else "dependentSchemas", {})[name] = needed
