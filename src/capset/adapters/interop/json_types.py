"""Types and keywords that others write in tool JSON, as JSON Schema 2020-12 has them (spec 8, W21)."""

from __future__ import annotations

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
"""The type of JSON that each type of others is, whether its letters are large or small; ``None`` for any type."""
_TOLD: Final = ("title", "description")
"""The keywords that say something to the model, and stand outside where a schema becomes a choice."""
Json = Any
"""A part of a JSON Schema, whose keywords have values of every JSON type."""


def mapped_schema(what: str, given: object) -> dict[str, Json]:
    """Return a schema of an object in the types and keywords of JSON Schema; ``None`` is one without properties.

    Raises ``DefinitionError``, starting with ``what`` and the path inside it, for one that cannot be mapped.
    """
    mapped = _mapped(what, {"type": "object", "properties": {}} if given is None else given, 0)
    if isinstance(mapped, bool):
        raise DefinitionError(f"{what}: arguments have names, so an object was expected; got {given!r:.80}")
    schema = cast("dict[str, Json]", mapped)
    if schema.get("type", "object") != "object":
        raise DefinitionError(f"{what}: arguments have names, so the type is 'object'; got {schema['type']!r:.80}")
    defs = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    return _reconciled(what, {"type": "object", **schema}, defs)


def _mapped(path: str, given: object, level: int) -> Json:
    """Return a schema with its types mapped; nothing is held against anything else yet."""
    if isinstance(given, bool):
        return given
    if level > MAX_SCHEMA_LEVELS:
        raise DefinitionError(f"{path}: it is nested more than {MAX_SCHEMA_LEVELS} levels deep")
    if not isinstance(given, Mapping):
        raise DefinitionError(f"{path}: a schema was expected, such as {{'type': 'string'}}; got {given!r:.80}")
    found: dict[str, Json] = {}
    for key, value in cast("Mapping[str, Json]", given).items():
        place = f"{path}.{key}"
        if key == "type":
            _add_type(place, value, found)
        elif key in MAPS_OF_SCHEMAS:
            members = _members(place, value)
            found[key] = {name: _mapped(f"{place}.{name}", one, level + 1) for name, one in members.items()}
        elif key == "items" and isinstance(value, list):
            found["prefixItems"] = _each(place, cast("list[Json]", value), level)
        elif key in SCHEMA_KEYWORDS:
            is_list = isinstance(value, list)
            found[key] = _each(place, cast("list[Json]", value), level) if is_list else _mapped(place, value, level + 1)
        else:
            found[key] = value
    if isinstance(found.get("properties"), dict):
        _gather_required(path, found)
    if found.pop("nullable", False) is True:
        _allow_null(found)
    return found


def _each(path: str, given: list[Json], level: int) -> list[Json]:
    return [_mapped(f"{path}.{at}", one, level + 1) for at, one in enumerate(given)]


def _members(path: str, given: object) -> Mapping[str, Json]:
    if not isinstance(given, Mapping):
        raise DefinitionError(f"{path}: schemas by their names were expected; got {given!r:.80}")
    return cast("Mapping[str, Json]", given)


def _add_type(path: str, given: object, found: dict[str, Json]) -> None:
    """Add the ``type`` of a schema, unless any type will do."""
    names = cast("list[object]", given) if isinstance(given, list) else [given]
    types: list[str] = []
    for one in names:
        if not isinstance(one, str) or one.casefold() not in TYPES:
            raise DefinitionError(
                f"{path}: a type was expected, such as string, integer, dict or float; got {one!r:.80}",
                hint="leave the type out for values of any type",
            )
        if (kind := TYPES[one.casefold()]) is None:
            return
        types += [kind] * (kind not in types)
    found["type"] = types if isinstance(given, list) else types[0]


def _gather_required(path: str, schema: dict[str, Json]) -> None:
    """Take ``required`` and ``optional`` as booleans, where they stand in a property, into the object's list."""
    required: Json = schema.get("required", [])
    if isinstance(required, bool):  # of the object itself, as a property: its parent takes it
        required = []
    if not isinstance(required, list):
        raise DefinitionError(f"{path}.required: a list of names was expected; got {required!r:.80}")
    names = dict.fromkeys(cast("list[Json]", required))
    for name, one in cast("dict[str, Json]", schema["properties"]).items():
        if not isinstance(one, dict):
            continue
        member = cast("dict[str, Json]", one)
        if isinstance(member.get("required"), bool):
            names |= {name: None} if member.pop("required") else {}
        if isinstance(member.get("optional"), bool) and member.pop("optional"):
            names.pop(name, None)
    if not isinstance(schema.get("required"), bool):
        schema.pop("required", None)
        if names:
            schema["required"] = list(names)
    elif names:
        raise DefinitionError(
            f"{path}.required: it says whether this is required, so it cannot list the required properties as well"
        )


def _allow_null(schema: dict[str, Json]) -> None:
    """Let null be a value of a schema, as far as its type and its enum say what its values are."""
    if "type" in schema:
        kinds = _kinds(schema)
        schema["type"] = kinds if "null" in kinds else [*kinds, "null"]
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]


def _reconciled(path: str, schema: Json, defs: dict[str, Json]) -> Json:
    """Return a mapped schema whose enums and defaults go with its types, at every depth."""
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Json] = {}
    for key, value in cast("dict[str, Json]", schema).items():
        place = f"{path}.{key}"
        if key in MAPS_OF_SCHEMAS and isinstance(value, dict):
            members = cast("dict[str, Json]", value)
            found[key] = {name: _reconciled(f"{place}.{name}", one, defs) for name, one in members.items()}
        elif key in SCHEMA_KEYWORDS and isinstance(value, list):
            parts = enumerate(cast("list[Json]", value))
            found[key] = [_reconciled(f"{place}.{at}", one, defs) for at, one in parts]
        else:
            found[key] = _reconciled(place, value, defs) if key in SCHEMA_KEYWORDS else value
    if isinstance(found.get("enum"), list) and "type" in found:
        _widen_to_enum(found)
    if "array" in _kinds(found):
        found.setdefault("items", {})
    return _allow_default(path, found, defs) if "default" in found else found


def _kinds(schema: Mapping[str, Json]) -> list[str]:
    kinds = schema.get("type", [])
    return cast("list[str]", kinds if isinstance(kinds, list) else [kinds])


def _widen_to_enum(schema: dict[str, Json]) -> None:
    """Have an enum and a type not rule each other out: the values that a document lists are meant."""
    values = cast("list[Json]", schema["enum"])
    if "array" in _kinds(schema) and not any(isinstance(one, list) for one in values):
        # Of an array, they are those of its items.
        inner = schema.get("items", {})
        if isinstance(inner, dict) and "enum" not in inner:
            del schema["enum"]
            items: dict[str, Json] = {**cast("dict[str, Json]", inner), "enum": values}
            if "type" in items:
                _widen_to_enum(items)
            schema["items"] = items
            return
    kinds = _kinds(schema)
    missing = [kind for kind in dict.fromkeys(map(_kind_of, values)) if not _covers(kinds, kind)]
    if missing:
        all_kinds = [*kinds, *missing]
        used = [kind for kind in all_kinds if any(_covers([kind], _kind_of(one)) for one in values)]
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


def _allow_default(path: str, schema: dict[str, Json], defs: dict[str, Json]) -> dict[str, Json]:
    """Return a schema with which its default fits: a document that names it as a value means that it is one."""
    default = schema["default"]
    rest = {key: value for key, value in schema.items() if key != "default"}
    if _fits(path, rest, default, defs):
        return schema
    if default is None:
        _allow_null(rest)
    elif isinstance(rest.get("enum"), list) and _covers(_kinds(rest), _kind_of(default)):
        rest["enum"] = [*rest["enum"], default]
    if _fits(path, rest, default, defs):
        return {**rest, "default": default}
    told = {key: rest.pop(key) for key in _TOLD if key in rest}
    return {**told, "anyOf": [rest, {"const": default}], "default": default}


def _fits(path: str, schema: Mapping[str, Json], value: Json, defs: Mapping[str, Json]) -> bool:
    try:
        compile_json_schema(path, {**defs, **schema}).check(value)
    except SchemaMismatch:
        return False
    return True
