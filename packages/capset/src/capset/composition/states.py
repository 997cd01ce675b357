"""The merge of the models of one scope's state into one with all fields, defaults and validators (spec 1, C13)."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel, PydanticUserError, create_model, field_validator, model_validator
from pydantic.fields import FieldInfo

from capset.composition.sources import Contributed, ContributionSource
from capset.definitions.resources import invalid_default_fields, state_schema
from capset.errors import StateConflict
from capset.schemas.schema import Schema, schema_of

_ANNOTATIONS: Final = frozenset({"default", "title", "description"})
"""The JSON Schema keywords in which two fields of the same name may differ."""


@dataclass(frozen=True, eq=False, slots=True)
class MergedState:
    """The merged state of one scope. ``model`` is a subclass of every contributed model, and can replace each of them.

    ``fields`` maps each field to its last contributor; ``models`` are the contributed models with their contributors.
    """

    model: type[BaseModel]
    schema: Schema
    fields: Mapping[str, ContributionSource]
    models: tuple[Contributed[type[BaseModel]], ...]


def merge_states(
    label: str,
    models: Iterable[tuple[ContributionSource, type[BaseModel]]],
    *,
    override: type[BaseModel] | None = None,
) -> MergedState:
    """Merge models in order. Of two fields with the same name, the later one applies, with its default.

    ``override`` is one of the models; its fields override those of all others.

    Raises ``StateConflict``, naming both contributors, if the JSON Schemas of two such fields differ in more than
    default, title and description, or if the classes cannot have a common subclass.
    """
    distinct: dict[type[BaseModel], ContributionSource] = {}
    for source, model in models:
        distinct.setdefault(model, source)
    overridden_fields: Container[str] = ()
    if override is not None:
        distinct[override] = distinct.pop(override)
        overridden_fields = override.model_fields
    fields: dict[str, tuple[FieldInfo, str]] = {}
    sources: dict[str, ContributionSource] = {}
    for model, source in distinct.items():
        field_schemas = _field_schemas(model)
        for name, info in model.model_fields.items():
            if name in fields and fields[name][1] != field_schemas[name] and name not in overridden_fields:
                raise StateConflict(
                    f"{sources[name]} and {source} have a field {name!r} of different types in the {label}",
                    hint="give one of them another name, or share one model",
                )
            fields[name], sources[name] = (info, field_schemas[name]), source
    joined = _join_models(label, tuple(distinct.items()), {name: info for name, (info, _) in fields.items()})
    return MergedState(
        joined,
        schema_of(f"the {label}", joined, "validation"),
        MappingProxyType(sources),
        tuple(Contributed(model, source) for model, source in distinct.items()),
    )


def _join_models(
    label: str, models: Sequence[tuple[type[BaseModel], ContributionSource]], fields: Mapping[str, FieldInfo]
) -> type[BaseModel]:
    if len(models) == 1:
        return models[0][0]
    classes = [model for model, _ in models]
    # Later models come first in the method resolution order; a base class of another model is inherited with it.
    bases = tuple(
        model
        for model in reversed(classes)
        if not any(issubclass(other, model) for other in classes if other is not model)
    )
    inherited = {name: info for base in reversed(bases) for name, info in base.model_fields.items()}
    definitions: dict[str, Any] = {
        name: (info.annotation, info) for name, info in fields.items() if info is not inherited[name]
    }
    try:
        validators = hidden_validators(bases, frozenset(fields))
        name = "".join(word.title() for word in label.split())
        joined = create_model(name, __base__=bases, __validators__=validators, **definitions)
        if (invalid_fields := invalid_default_fields(joined)) is not None:
            raise MergeError(f"the default of {invalid_fields} does not fit the constraints of all of them")
    except (TypeError, PydanticUserError, MergeError) as error:
        contributors = " and ".join(str(source) for model, source in models if model in bases)
        raise StateConflict(
            f"{contributors}: their models cannot be joined in the {label}: {' '.join(str(error).split())}",
            hint="rename the fields or methods that clash, or share one model",
        ) from None
    return joined


def _field_schemas(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the JSON Schema of each field as text, without the parts that may differ."""
    schema = state_schema(model).json_schema
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    root = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    properties: Mapping[str, Any] = root.get("properties", {})
    # A field that is excluded from the schema is represented by its annotation.
    return {
        name: json.dumps(_without_annotations(properties.get(name, repr(info.annotation)), definitions), sort_keys=True)
        for name, info in model.model_fields.items()
    }


def _without_annotations(schema: Any, definitions: Mapping[str, Any], above: tuple[str, ...] = ()) -> Any:
    """Return a schema without annotations and with its references inlined, since names of classes are irrelevant."""
    if isinstance(schema, list):
        return [_without_annotations(element, definitions, above) for element in schema]  # pyright: ignore[reportUnknownVariableType]  # JSON
    if not isinstance(schema, dict):
        return schema
    node: dict[str, Any] = schema  # pyright: ignore[reportUnknownVariableType]  # JSON
    if isinstance(ref := node.get("$ref"), str):
        name = ref.rpartition("/")[2]
        if name in above:
            return {"$ref": len(above) - above.index(name)}
        return _without_annotations(definitions.get(name, {}), definitions, (*above, name))
    constraints: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            constraints[key] = {
                field: _without_annotations(inner, definitions, above) for field, inner in value.items()
            }
        elif key == "discriminator":
            constraints[key] = value.get("propertyName")  # the options contain the rest
        elif key in ("const", "enum"):
            constraints[key] = value
        elif key not in _ANNOTATIONS:
            constraints[key] = _without_annotations(value, definitions, above)
    return constraints


_IRRELEVANT_SETTINGS: Final = frozenset(
    {
        *("title", "extra", "json_schema_extra", "strict", "from_attributes", "defer_build", "protected_namespaces"),
        *("arbitrary_types_allowed", "use_attribute_docstrings", "validate_default"),
    }
)
"""Settings that do not affect the fields of other models, since state is read strictly, field by field."""
_PYDANTIC_ATTRIBUTES: Final = frozenset({"model_config", "_abc_impl", "Config"})
Validator = Callable[..., Any]
"""A validator in the form that ``create_model`` takes."""


class MergeError(Exception):
    """Two models cannot have a common subclass; the message gives the reason."""


def hidden_validators(bases: Sequence[type[BaseModel]], fields: Collection[str]) -> dict[str, Validator]:
    """Return, under new names, the validators of ``bases`` that one of the same name in another base would hide.

    Raises ``MergeError`` for anything else that would be hidden: a method, a property, a serialiser, a setting.
    """
    _check_settings(bases)
    hidden: dict[str, Validator] = {}
    visible: dict[str, tuple[type, object]] = {}
    for model in bases:
        validators = _validators(model)
        for name, owner, value in _members(model):
            first_owner, first = visible.setdefault(name, (owner, value))
            if name in fields:
                raise MergeError(f"{owner.__name__}.{name} would be hidden by a field of that name")
            if first is value or first == value or issubclass(first_owner, owner):
                continue
            if name not in validators or name not in _validators(first_owner):
                raise MergeError(f"{first_owner.__name__}.{name} would hide {owner.__name__}.{name}")
            hidden[f"{name}_of_{len(hidden)}"] = validators[name](value)
    return hidden


def _members(model: type[BaseModel]) -> Iterator[tuple[str, type, object]]:
    """Yield the name, class and value of all that a model's classes define besides fields, each name once."""
    names: set[str] = set()
    for owner in model.__mro__:
        if owner in BaseModel.__mro__:
            continue
        for name, value in vars(owner).items():
            if name not in names and name not in _PYDANTIC_ATTRIBUTES and not name.startswith("__"):
                names.add(name)
                yield name, owner, value


def _validators(model: type) -> Mapping[str, Callable[[Any], Validator]]:
    """Return functions that recreate the validators of a model, by name."""
    if not issubclass(model, BaseModel):
        return {}
    decorators, validators = model.__pydantic_decorators__, dict[str, Any]()
    for name, decorator in decorators.field_validators.items():
        mode: Any = decorator.info.mode  # pydantic's overloads take one mode at a time
        validators[name] = field_validator(*decorator.info.fields, mode=mode, check_fields=False)
    for name, decorator in decorators.model_validators.items():
        validators[name] = model_validator(mode=decorator.info.mode)
    return validators


def _check_settings(bases: Sequence[type[BaseModel]]) -> None:
    names = {name for model in bases for name in model.model_config} - _IRRELEVANT_SETTINGS
    for name in sorted(names):
        # A setting that is off is equal to one that is not set.
        settings = [model.model_config.get(name) or None for model in bases]
        if any(setting != settings[0] for setting in settings):
            description = " and ".join(
                f"{setting!r} for {model.__name__}" for setting, model in zip(settings, bases, strict=True)
            )
            raise MergeError(f"model_config sets {name!r} to {description}")
