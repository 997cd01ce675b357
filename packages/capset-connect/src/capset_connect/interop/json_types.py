"""Mapping of the types and keywords found in tool JSON to JSON Schema 2020-12 (spec 8, W21)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from capset.errors import DefinitionError
from capset.schemas.json_schema import MAX_SCHEMA_LEVELS, SCHEMA_KEYWORDS, compile_json_schema
from capset.schemas.schema import MAPS_OF_SCHEMAS
from capset.schemas.validation_errors import SchemaMismatch

TYPES: Final[Mapping[str, str | None]] = MappingProxyType(
    {
        **dict.fromkeys(("object", "dict", "dictionary", "map", "hashmap", "hashtable"), "object"),
        **dict.fromkeys(("array", "list", "arraylist", "tuple", "set", "queue", "stack"), "array"),
        **dict.fromkeys(("string", "str", "char"), "string"),
        **dict.fromkeys(("integer", "int", "long", "short", "byte", "bigint"), "integer"),
        **dict.fromkeys(("number", "float", "double"), "number"),
        **dict.fromkeys(("boolean", "bool"), "boolean"),
        **dict.fromkeys(("null", "none", "nonetype"), "null"),
        **dict.fromkeys(("any", ""), None),
    }
)
"""The JSON type of each type name, compared case-insensitively. ``None`` means any type."""
_TOLD: Final = ("title", "description")
"""The keywords that models read. They stay outside when a schema is wrapped in ``anyOf``."""
_OUTSIDE: Final = frozenset({*_TOLD, "default", "$schema", "$id", "$defs", "definitions"})
"""All keywords that stay outside when a schema is wrapped in an ``anyOf`` with null."""
_COMBINED: Final = ("$ref", "allOf", "anyOf", "oneOf", "const")
"""Keywords that can exclude null even if ``type`` allows it."""
_OLDER: Final = re.compile(r"https?://json-schema\.org/(draft-0\d|draft/2019-09)/schema#?")
"""The dialects before 2020-12, in which ``items`` may be a list."""
_ROOT: Final = "capset:/root"
_PART: Final = "capset-part"
Json = Any
"""A value in a JSON Schema: any JSON."""


def mapped_schema(label: str, source: object) -> dict[str, Json]:
    """Map a schema of arguments to the types and keywords of JSON Schema. ``None`` means no properties.

    Raises ``DefinitionError``, starting with ``label`` and the path in the schema, if it cannot be mapped.
    """
    document: object = {"type": "object", "properties": {}} if source is None else source
    mapped = _mapped(label, document, 0, is_older=_is_older(document))
    if isinstance(mapped, bool):
        raise DefinitionError(f"{label}: arguments have names, so an object was expected; got {source!r:.80}")
    schema = cast("dict[str, Json]", mapped)
    if schema.get("type", "object") != "object":
        raise DefinitionError(f"{label}: arguments have names, so the type is 'object'; got {schema['type']!r:.80}")
    schema = {"type": "object", **schema}
    return _reconciled(label, schema, schema)


def mapped_result(label: str, source: object) -> dict[str, Json]:
    """Map a schema of results, which may have any type, to the types and keywords of JSON Schema.

    Raises the errors of ``mapped_schema``.
    """
    mapped = _mapped(label, source, 0, is_older=_is_older(source))
    if isinstance(mapped, bool):
        return {} if mapped else {"not": {}}
    return _reconciled(label, mapped, mapped)


def _is_older(schema: object) -> bool:
    """Return whether a document declares a dialect before 2020-12."""
    dialect = cast("Mapping[str, object]", schema).get("$schema") if isinstance(schema, Mapping) else None
    return isinstance(dialect, str) and _OLDER.fullmatch(dialect) is not None


def _mapped(path: str, source: object, level: int, *, is_older: bool) -> Json:
    """Return a schema with its types mapped. Enums and defaults are not reconciled with the types yet."""
    if isinstance(source, bool):
        return source
    _check_level(path, level)
    if not isinstance(source, Mapping):
        raise DefinitionError(f"{path}: a schema was expected, such as {{'type': 'string'}}; got {source!r:.80}")
    schema: dict[str, Json] = {}
    for key, value in cast("Mapping[str, Json]", source).items():
        place = f"{path}.{key}"
        if key == "type":
            _add_type(place, value, schema)
        elif key in MAPS_OF_SCHEMAS:
            members = _members(place, value)
            schema[key] = {
                name: _mapped(f"{place}.{name}", member, level + 1, is_older=is_older)
                for name, member in members.items()
            }
        elif key in SCHEMA_KEYWORDS and isinstance(value, list):
            parts = enumerate(cast("list[Json]", value))
            schema[key] = [_mapped(f"{place}.{at}", part, level + 1, is_older=is_older) for at, part in parts]
        elif key in SCHEMA_KEYWORDS:
            schema[key] = _mapped(place, value, level + 1, is_older=is_older)
        else:
            _check_depth(place, value, level)
            schema[key] = value
    if not is_older:
        _number_items(schema)
    _check_required(path, schema, is_root=level == 0)
    if isinstance(schema.get("properties"), dict):
        _gather_required(path, schema)
    return _with_null(schema) if schema.pop("nullable", False) is True else schema


def _check_level(path: str, level: int) -> None:
    if level > MAX_SCHEMA_LEVELS:
        raise DefinitionError(f"{path}: it is nested more than {MAX_SCHEMA_LEVELS} levels deep; make it flatter")


def _check_depth(path: str, value: Json, level: int) -> None:
    """Raise ``DefinitionError`` for data that is nested too deeply."""
    inside = [value]
    while inside:
        _check_level(path, level)
        level += 1
        children: list[Json] = []
        for node in inside:
            if isinstance(node, dict):
                children += cast("dict[str, Json]", node).values()
            elif isinstance(node, list):
                children += cast("list[Json]", node)
        inside = children


def _number_items(schema: dict[str, Json]) -> None:
    """Convert a list in ``items`` to ``prefixItems``. Drop ``additionalItems``, which means nothing without a list."""
    rest = schema.pop("additionalItems", None)
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        if rest is not None:
            schema["items"] = rest


def _check_required(path: str, schema: Mapping[str, Json], *, is_root: bool) -> None:
    """Raise ``DefinitionError`` if ``required`` is not a list of names, or a boolean in a property."""
    required: Json = schema.get("required", [])
    if isinstance(required, bool) and not is_root:
        return
    if not isinstance(required, list) or not all(isinstance(name, str) for name in cast("list[Json]", required)):
        raise DefinitionError(f"{path}.required: a list of names was expected; got {required!r:.80}")


def _members(path: str, schemas: object) -> Mapping[str, Json]:
    if not isinstance(schemas, Mapping):
        raise DefinitionError(f"{path}: an object of schemas was expected; got {schemas!r:.80}")
    return cast("Mapping[str, Json]", schemas)


def _add_type(path: str, source: object, schema: dict[str, Json]) -> None:
    """Add the ``type`` to a schema, unless it allows any type."""
    names = cast("list[object]", source) if isinstance(source, list) else [source]
    types: list[str] = []
    for name in names:
        if not isinstance(name, str) or name.casefold() not in TYPES:
            raise DefinitionError(
                f"{path}: a type was expected, such as string, integer, dict or float; got {name!r:.80}",
                hint="leave the type out for values of any type",
            )
        if (kind := TYPES[name.casefold()]) is None:
            return
        types += [kind] * (kind not in types)
    schema["type"] = types if isinstance(source, list) else types[0]


def _gather_required(path: str, schema: dict[str, Json]) -> None:
    """Move the booleans ``required`` and ``optional`` from the properties to the object's list."""
    required: Json = schema.get("required", [])
    # As a boolean, it describes the object itself as a property, so the parent moves it.
    names = dict.fromkeys(cast("list[str]", [] if isinstance(required, bool) else required))
    for name, property_schema in cast("dict[str, Json]", schema["properties"]).items():
        if not isinstance(property_schema, dict):
            continue
        member = cast("dict[str, Json]", property_schema)
        if isinstance(member.get("required"), bool):
            names |= {name: None} if member.pop("required") else {}
        if isinstance(member.get("optional"), bool) and member.pop("optional"):
            names.pop(name, None)
    if not isinstance(schema.get("required"), bool):
        schema.pop("required", None)
        if names:
            schema["required"] = list(names)
    elif names:
        raise DefinitionError(f"{path}.required: it is a boolean, so it cannot also list the required properties")


def _with_null(schema: dict[str, Json]) -> dict[str, Json]:
    """Return a schema that also allows null."""
    if not any(key in schema for key in _COMBINED):
        _allow_null(schema)
        return schema
    # A boolean describes the schema as a property, so the parent moves it.
    outside = {
        key: value
        for key, value in schema.items()
        if key in _OUTSIDE or (key in ("required", "optional") and isinstance(value, bool))
    }
    rest = {key: value for key, value in schema.items() if key not in outside}
    return {**outside, "anyOf": [rest, {"type": "null"}]}


def _allow_null(schema: dict[str, Json]) -> None:
    """Add null to the type and the enum of a schema, as far as it has them."""
    if "type" in schema:
        kinds = _kinds(schema)
        schema["type"] = kinds if "null" in kinds else [*kinds, "null"]
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]


def _reconciled(path: str, schema: Json, root: dict[str, Json]) -> Json:
    """Return a mapped schema with enums and defaults that match its types, at every depth. ``root`` is the document."""
    if not isinstance(schema, dict):
        return schema
    reconciled: dict[str, Json] = {}
    for key, value in cast("dict[str, Json]", schema).items():
        place = f"{path}.{key}"
        if key in MAPS_OF_SCHEMAS and isinstance(value, dict):
            members = cast("dict[str, Json]", value)
            reconciled[key] = {name: _reconciled(f"{place}.{name}", member, root) for name, member in members.items()}
        elif key in SCHEMA_KEYWORDS and isinstance(value, list):
            parts = enumerate(cast("list[Json]", value))
            reconciled[key] = [_reconciled(f"{place}.{at}", part, root) for at, part in parts]
        else:
            reconciled[key] = _reconciled(place, value, root) if key in SCHEMA_KEYWORDS else value
    if isinstance(reconciled.get("enum"), list) and "type" in reconciled:
        _widen_to_enum(reconciled)
    if "array" in _kinds(reconciled):
        reconciled.setdefault("items", {})
    return _allow_default(path, reconciled, root) if "default" in reconciled else reconciled


def _kinds(schema: Mapping[str, Json]) -> list[str]:
    kinds = schema.get("type", [])
    return cast("list[str]", kinds if isinstance(kinds, list) else [kinds])


def _widen_to_enum(schema: dict[str, Json]) -> None:
    """Change the type so that it does not exclude values of the enum, which are assumed to be intended."""
    values = cast("list[Json]", schema["enum"])
    kinds = _kinds(schema)
    others = [option for option in values if option is not None]
    is_array = "array" in kinds and {*kinds} <= {"array", "null"}
    if is_array and others and not any(isinstance(option, list) for option in others):
        # For an array, they are the values of its items.
        inner = schema.get("items", {})
        if isinstance(inner, dict) and "enum" not in inner:
            del schema["enum"]
            item_values = others if "null" in kinds else values  # null is then an alternative to the array
            items: dict[str, Json] = {**cast("dict[str, Json]", inner), "enum": item_values}
            if "type" in items:
                _widen_to_enum(items)
            schema["items"] = items
            return
    missing = [kind for kind in dict.fromkeys(map(_kind_of, values)) if not _covers(kinds, kind)]
    if missing:
        all_kinds = [*kinds, *missing]
        used = [kind for kind in all_kinds if any(_covers([kind], _kind_of(entry)) for entry in values)]
        schema["type"] = used if len(used) > 1 else used[0]


def _covers(kinds: list[str], kind: str) -> bool:
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _kind_of(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _allow_default(path: str, schema: dict[str, Json], root: dict[str, Json]) -> dict[str, Json]:
    """Return a schema that allows its default, which is assumed to be intended."""
    default = schema["default"]
    rest = {key: value for key, value in schema.items() if key != "default"}
    if _fits(path, rest, default, root):
        return schema
    if default is None:
        _allow_null(rest)
    elif isinstance(rest.get("enum"), list) and _covers(_kinds(rest), _kind_of(default)):
        rest["enum"] = [*rest["enum"], default]
    if _fits(path, rest, default, root):
        return {**rest, "default": default}
    headings = {key: rest.pop(key) for key in _TOLD if key in rest}
    default_schema = {"enum": [default]} if _is_older(root) else {"const": default}  # the oldest dialects lack const
    return {**headings, "anyOf": [rest, default_schema], "default": default}


def _fits(path: str, schema: Mapping[str, Json], value: Json, root: Mapping[str, Json]) -> bool:
    """Return whether a part of a document allows a value. Always true if a reference in it cannot be resolved."""
    refers = re.search(r'"\$(dynamic|recursive)?[Rr]ef"', json.dumps(schema, default=str)) is not None
    dialect = {"$schema": root["$schema"]} if "$schema" in root else {}
    try:
        document = _in_document(schema, root) if refers else schema
        compile_json_schema(path, {**dialect, **document}).check(value)
    except SchemaMismatch:
        return False
    except DefinitionError:
        if not refers:
            raise
    return True


def _in_document(schema: Mapping[str, Json], root: Mapping[str, Json]) -> dict[str, Json]:
    """Return a part of a document as a separate document in which its references still resolve."""
    # With an id, the original remains a document within it.
    name = root["$id"] if isinstance(root.get("$id"), str) else _ROOT
    base = str(name).partition("#")[0] or _ROOT
    parts = {**root.get("definitions", {}), _PART: schema}
    return {
        "definitions": {"root": {**root, "$id": base, "definitions": parts}},
        "$ref": f"{base}#/definitions/{_PART}",
    }
