"""Objects of JSON Schema: closed ones take no other properties, and named fields are read one by one (spec 4, G12)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Final, NotRequired, Required, cast, get_args, get_origin

from pydantic import BaseModel, Field, RootModel
from typing_extensions import get_type_hints, is_typeddict

from capset.errors import DefinitionError

_OPEN: Final = frozenset(
    {
        *("additionalProperties", "unevaluatedProperties", "patternProperties", "$ref", "$dynamicRef"),
        *("allOf", "anyOf", "oneOf", "if", "dependentSchemas"),
    }
)
"""Keywords by which other schemas affect an object's properties: then only its author can close it."""


def close_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema of an input that refuses unknown properties, at every depth.

    This closes objects that list ``properties`` and do not mention others. Combinations of several schemas are left
    as they are, and so are definitions that only these refer to.
    """
    root, defs = dict(schema), cast("Mapping[str, Any]", schema.get("$defs", {}))
    reached: set[str] = set()
    root = _closed(root, reached)
    if not defs:
        return root
    known, done = dict(defs), set[str]()
    while todo := (reached & known.keys()) - done:
        for name in sorted(todo):
            known[name] = _closed(known[name], reached)
            done.add(name)
    return {**root, "$defs": known}


def _closed(schema: Any, reached: set[str]) -> Any:
    """Close a schema and those of its properties and items; collect the definitions used on their own there."""
    if not isinstance(schema, Mapping):
        return schema
    found = dict(cast("Mapping[str, Any]", schema))
    reference = found.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        reached.add(reference.removeprefix("#/$defs/"))
    properties = found.get("properties")
    if isinstance(properties, Mapping):
        members = cast("Mapping[str, Any]", properties)
        found["properties"] = {name: _closed(inner, reached) for name, inner in members.items()}
        if _OPEN.isdisjoint(found):
            found["additionalProperties"] = False
    if "items" in found:
        found["items"] = _closed(found["items"], reached)
    return found


def object_fields(owner: str, annotation: Any) -> Mapping[str, Any] | None:
    """Return the annotated fields of a pydantic model, a ``TypedDict`` or a dataclass, or ``None`` for other types.

    A field with a default carries it in its annotation. Raises ``DefinitionError``, starting with ``owner``, for a
    model whose fields cannot be arguments: with aliases, or with extra fields allowed.
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
        said = info.asdict()
        annotation: Any = said["annotation"]
        for note in (*said["metadata"], Field(**said["attributes"])):
            annotation = Annotated[annotation, note]
        fields[name] = annotation
    return fields


def _typed_dict_fields(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: hint
        if name in kind.__required_keys__ or get_origin(hint) in (Required, NotRequired)
        else NotRequired[hint]
        for name, hint in hints.items()
    }


def _dataclass_fields(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {}
    for one in dataclasses.fields(kind):
        if not one.init:
            continue
        if one.default is not dataclasses.MISSING:
            fields[one.name] = Annotated[hints[one.name], Field(default=one.default)]
        elif one.default_factory is not dataclasses.MISSING:
            fields[one.name] = Annotated[hints[one.name], Field(default_factory=one.default_factory)]
        else:
            fields[one.name] = hints[one.name]
    return fields
