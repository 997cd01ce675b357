"""Parameters declared as JSON Schema, in full or in a shorthand (spec 4, G11, G12)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Final, NotRequired, Required, cast, get_args, get_origin

from pydantic import BaseModel, Field, RootModel
from pydantic.fields import FieldInfo
from typing_extensions import get_type_hints, is_typeddict

from capset.errors import DefinitionError, unknown
from capset.schemas.json_schema import JsonSchema, compile_own_schema

_OPEN: Final = frozenset(
    {
        *("additionalProperties", "unevaluatedProperties", "patternProperties", "$ref", "$dynamicRef"),
        *("allOf", "anyOf", "oneOf", "if", "dependentSchemas"),
    }
)
"""Keywords through which other schemas affect an object's properties, so that only its author can close it."""

_ANNOTATIONS: Final = frozenset({"$ref", "$defs", "title", "description"})
"""Keywords allowed beside a reference that do not affect validation."""
_KEYWORDS: Final = frozenset(
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
"""The keywords allowed in the shorthand. JSON Schema would ignore a misspelt one and accept everything."""


def close_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of an input's JSON Schema that refuses unknown properties, at every depth.

    Closes objects that list ``properties`` and do not mention others. Combinations of several schemas are left
    unchanged, and so are definitions that only these refer to.
    """
    root, defs = dict(schema), cast("Mapping[str, Any]", schema.get("$defs", {}))
    reached: set[str] = set()
    root = _closed(root, reached)
    if not defs:
        return root
    definitions, closed = dict(defs), set[str]()
    while todo := (reached & definitions.keys()) - closed:
        for name in sorted(todo):
            definitions[name] = _closed(definitions[name], reached)
            closed.add(name)
    return {**root, "$defs": definitions}


def _closed(schema: Any, reached: set[str]) -> Any:
    """Close a schema and those of its properties and items; collect the definitions they refer to in ``reached``."""
    if not isinstance(schema, Mapping):
        return schema
    closed = dict(cast("Mapping[str, Any]", schema))
    reference = closed.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        reached.add(reference.removeprefix("#/$defs/"))
    properties = closed.get("properties")
    if isinstance(properties, Mapping):
        members = cast("Mapping[str, Any]", properties)
        closed["properties"] = {name: _closed(inner, reached) for name, inner in members.items()}
        if _OPEN.isdisjoint(closed):
            closed["additionalProperties"] = False
    if "items" in closed:
        closed["items"] = _closed(closed["items"], reached)
    return closed


def object_fields(owner: str, annotation: Any) -> Mapping[str, Any] | None:
    """Return the annotated fields of a pydantic model, a ``TypedDict`` or a dataclass, or ``None`` for other types.

    The annotation of a field with a default includes it. Raises ``DefinitionError``, starting with ``owner``, if a
    model's fields cannot be arguments, because it has aliases or allows extra fields.
    """
    kind: Any = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if _is_model(kind):
        return _model_fields(owner, kind)
    if is_typeddict(kind):
        return _typed_dict_fields(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass_fields(kind)
    return None


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel) and not issubclass(kind, RootModel)


def _model_fields(owner: str, model: type[BaseModel]) -> Mapping[str, Any]:
    if model.model_config.get("extra") == "allow":
        raise DefinitionError(f"{owner}: {model.__name__} allows extra fields; a tool's arguments are all named")
    fields: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        if info.alias is not None or info.validation_alias is not None:
            raise DefinitionError(f"{owner}: {model.__name__}.{name} has an alias; an argument has one name")
        fields[name] = annotation_of(info)
    return fields


def annotation_of(info: FieldInfo) -> Any:
    """Return the annotation of a model's field with its metadata, such as a description or a default."""
    parts = info.asdict()
    annotation: Any = parts["annotation"]
    # In one step: Python caches ``Annotated`` by its parts, and no ``Field`` equals another.
    return Annotated[(annotation, *parts["metadata"], Field(**parts["attributes"]))]


def _typed_dict_fields(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: hint
        if name in kind.__required_keys__ or get_origin(hint) in (Required, NotRequired)
        else NotRequired[Annotated[hint, object()]]  # the object makes it unique: Python caches equal hints
        for name, hint in hints.items()
    }


def _dataclass_fields(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        if field.default is not dataclasses.MISSING:
            fields[field.name] = Annotated[hints[field.name], Field(default=field.default)]
        elif field.default_factory is not dataclasses.MISSING:
            fields[field.name] = Annotated[hints[field.name], Field(default_factory=field.default_factory)]
        else:
            fields[field.name] = hints[field.name]
    return fields


def parameters_schema(owner: str, parameters: Mapping[str, Any]) -> JsonSchema:
    """Return the schema of arguments. The values of keywords are ``Any``, since they have any JSON type.

    ``parameters`` is a JSON Schema if its ``type`` is a string or it has a ``$ref``, otherwise the shorthand:
    ``{"location": {"type": "string", "required": True}}``. An object that lists ``properties`` and does not mention
    others is closed. Raises ``DefinitionError``, starting with ``owner``, if the parameters are not valid.
    """
    label = f"{owner}: parameters"
    if not isinstance(parameters, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers pass untrusted data
        raise DefinitionError(f"{label}: a mapping was expected; got {parameters!r:.80}")
    is_whole = isinstance(parameters.get("type"), str) or "$ref" in parameters
    document = close_object(
        resolve_reference(
            parameters if is_whole else _with_required_list(label, {"type": "object", "properties": parameters})
        )
    )
    if document.get("type") != "object":
        raise DefinitionError(
            f"{label}: arguments have names, so the type is 'object'; got {document.get('type')!r:.80}"
        )
    schema = compile_own_schema(label, document)
    check_object(label, document)
    return schema


def _with_required_list(label: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's schema with the ``required: true`` of properties collected in a list, as in JSON Schema."""
    converted, required = dict(schema), list[str]()
    properties: dict[str, Any] = {}
    for name, parameter in cast("Mapping[str, Any]", schema["properties"]).items():
        properties[name], is_required = _parameter(f"{label}.{name}", parameter)
        if is_required:
            required.append(name)
    converted["properties"] = properties
    if required:
        converted["required"] = required
    return converted


def _parameter(label: str, parameter: object) -> tuple[dict[str, Any], bool]:
    if not isinstance(parameter, Mapping):
        raise DefinitionError(
            f"{label}: a parameter is a mapping, such as {{'type': 'string', 'required': True}}; got {parameter!r:.80}",
            hint="a complete JSON Schema has type: object beside its properties",
        )
    schema = dict(cast("Mapping[str, Any]", parameter))
    if unknown_keys := [key for key in schema if key not in _KEYWORDS]:
        raise DefinitionError(
            f"{label}: {unknown('keyword', str(unknown_keys[0]), _KEYWORDS)}",
            hint="a complete JSON Schema has type: object beside its properties",
        )
    is_required = schema.get("required", False)
    if isinstance(is_required, bool):
        schema.pop("required", None)
        if schema.get("type") == "object" and isinstance(schema.get("properties"), Mapping):
            schema = _with_required_list(label, schema)
        return schema, is_required
    return schema, False  # ``required`` of an object is a list, as in JSON Schema


def resolve_reference(schema: Mapping[str, Any]) -> dict[str, Any]:  # a JSON Schema that is not checked yet
    """Return a schema with its top-level reference resolved, since pydantic writes nested models as references."""
    resolved, defs, visited = dict(schema), schema.get("$defs", {}), set[str]()
    while isinstance(reference := resolved.get("$ref"), str) and reference not in visited:
        visited.add(reference)
        target = defs.get(reference.removeprefix("#/$defs/"))
        if not isinstance(target, Mapping) or resolved.keys() - _ANNOTATIONS:
            break
        del resolved["$ref"]
        resolved = {**cast("Mapping[str, Any]", target), **resolved}
    return resolved


def check_object(owner: str, schema: Mapping[str, Any]) -> None:
    """Raise ``DefinitionError`` for a valid JSON Schema that makes no sense for arguments."""
    missing = sorted({*schema.get("required", ())} - {*schema.get("properties", ())})
    if missing and schema.get("additionalProperties") is False:
        raise DefinitionError(f"{owner}: {missing[0]!r} is required, but is not a property: no value could ever fit")
    if "default" in schema:
        raise DefinitionError(
            f"{owner}: arguments are filled in field by field, so a default as a whole would never be used",
            hint="set the defaults on the properties",
        )
