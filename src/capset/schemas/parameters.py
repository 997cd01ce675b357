"""Parameters given as JSON Schema, in full or in shorthand (spec 4, G11, G12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from capset.errors import DefinitionError, unknown
from capset.schemas.closed_objects import close_object
from capset.schemas.json_schema import JsonSchema, compile_json_schema

_BESIDE: Final = frozenset({"$ref", "$defs", "title", "description"})
"""Keywords allowed beside a reference that do not affect validation."""
_WORDS: Final = frozenset(
    {
        *("type", "enum", "const", "default", "title", "description", "examples", "deprecated", "format", "pattern"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
        *("properties", "additionalProperties", "patternProperties", "propertyNames", "required", "dependentRequired"),
        *("minProperties", "maxProperties", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "readOnly", "writeOnly", "$ref", "$comment"),
        *("contentEncoding", "contentMediaType", "contentSchema"),
    }
)
"""The keywords of a parameter in the shorthand: a misspelt one would accept everything."""


def parameters_schema(owner: str, parameters: Mapping[str, Any]) -> JsonSchema:
    """Return the schema of arguments; ``Any`` because the keywords' values have any JSON type.

    ``parameters`` is a JSON Schema if its ``type`` is a string, otherwise the shorthand: ``{"location": {"type":
    "string", "required": True}}``. An object that lists ``properties`` and does not mention others takes no others.
    Raises ``DefinitionError``, starting with ``owner``.
    """
    what = f"{owner}: parameters"
    if not isinstance(parameters, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers hand on others' data
        raise DefinitionError(f"{what}: a mapping was expected; got {parameters!r:.80}")
    is_whole = isinstance(parameters.get("type"), str) or "$ref" in parameters
    found = close_object(
        followed(parameters if is_whole else _joined(what, {"type": "object", "properties": parameters}))
    )
    if found.get("type") != "object":
        raise DefinitionError(f"{what}: arguments have names, so the type is 'object'; got {found.get('type')!r:.80}")
    schema = compile_json_schema(what, found)
    check_object(what, found)
    return schema


def _joined(what: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's schema with each property's ``required: true`` gathered into a list, as in JSON Schema."""
    found, required = dict(schema), list[str]()
    properties: dict[str, Any] = {}
    for name, given in cast("Mapping[str, Any]", schema["properties"]).items():
        properties[name], is_required = _parameter(f"{what}.{name}", given)
        if is_required:
            required.append(name)
    found["properties"] = properties
    if required:
        found["required"] = required
    return found


def _parameter(what: str, given: object) -> tuple[dict[str, Any], bool]:
    if not isinstance(given, Mapping):
        raise DefinitionError(
            f"{what}: a parameter is a mapping, such as {{'type': 'string', 'required': True}}; got {given!r:.80}",
            hint="a whole JSON Schema says type: object beside its properties",
        )
    schema = dict(cast("Mapping[str, Any]", given))
    if wrong := [key for key in schema if key not in _WORDS]:
        raise DefinitionError(
            f"{what}: {unknown('keyword', str(wrong[0]), _WORDS)}",
            hint="a whole JSON Schema says type: object beside its properties",
        )
    is_required = schema.get("required", False)
    if isinstance(is_required, bool):
        schema.pop("required", None)
        if schema.get("type") == "object" and isinstance(schema.get("properties"), Mapping):
            schema = _joined(what, schema)
        return schema, is_required
    return schema, False  # for an object, a list as in JSON Schema


def followed(schema: Mapping[str, Any]) -> dict[str, Any]:  # a JSON Schema that is not checked yet
    """Return a schema with its reference resolved: pydantic writes nested models as references."""
    found, defs, seen = dict(schema), schema.get("$defs", {}), set[str]()
    while isinstance(reference := found.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        target = defs.get(reference.removeprefix("#/$defs/"))
        if not isinstance(target, Mapping) or found.keys() - _BESIDE:
            break
        del found["$ref"]
        found = {**cast("Mapping[str, Any]", target), **found}
    return found


def check_object(owner: str, schema: Mapping[str, Any]) -> None:
    """Refuse valid JSON Schema that cannot be meant for arguments. Raises ``DefinitionError``."""
    missing = sorted({*schema.get("required", ())} - {*schema.get("properties", ())})
    if missing and schema.get("additionalProperties") is False:
        raise DefinitionError(f"{owner}: {missing[0]!r} is required, and no property: nothing could ever fit")
    if "default" in schema:
        raise DefinitionError(
            f"{owner}: arguments are filled in field by field, so a default as a whole would never be used",
            hint="give the defaults to the properties",
        )
