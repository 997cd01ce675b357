"""A type whose values are objects, as the named fields that a tool takes one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin

from pydantic import BaseModel, Field, RootModel
from typing_extensions import get_type_hints, is_typeddict

from capset.errors import DefinitionError


def object_fields(owner: str, annotation: Any) -> Mapping[str, Any] | None:
    """Return the annotated fields of a pydantic model, a ``TypedDict`` or a dataclass, or ``None`` for other types.

    A field with a default carries it in its annotation. Raises ``DefinitionError``, beginning with ``owner``, for a
    model whose fields cannot be arguments: with aliases, or open to others.
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
