"""Joining the models of one scope's state into one, whose fields, defaults and validators all hold (spec 1, C13)."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel, PydanticUserError, create_model
from pydantic.fields import FieldInfo

from capset.composition.hidden import Unjoinable, hidden_validators
from capset.composition.sources import Contributed, Source
from capset.definitions.schemas import Schema, schema_of
from capset.definitions.scopes import state_schema, unfit_default
from capset.errors import StateConflict

_ANNOTATIONS: Final = frozenset({"default", "title", "description"})
"""What two fields of one name may differ in."""


@dataclass(frozen=True, eq=False, slots=True)
class MergedState:
    """The state of one scope. ``model`` is a subclass of every contributed model, so that it is what each one expects.

    ``fields`` name the last contributor of each; ``models`` are the contributed ones, with their contributors.
    """

    model: type[BaseModel]
    schema: Schema
    fields: Mapping[str, Source]
    models: tuple[Contributed[type[BaseModel]], ...]


def merge_states(
    what: str, models: Iterable[tuple[Source, type[BaseModel]]], *, last_word: type[BaseModel] | None = None
) -> MergedState:
    """Join models in their order: fields add up, and of two with one name the later holds, with its default.

    ``last_word`` is one of the models whose fields hold whatever the others say of them (C20).

    Raises ``StateConflict``, naming both contributors, where their JSON Schemas differ in more than default, title and
    description, or where the classes cannot have one subclass.
    """
    distinct: dict[type[BaseModel], Source] = {}
    for source, model in models:
        distinct.setdefault(model, source)
    settled: Container[str] = ()
    if last_word is not None:
        distinct[last_word] = distinct.pop(last_word)
        settled = last_word.model_fields
    fields: dict[str, tuple[FieldInfo, str]] = {}
    sources: dict[str, Source] = {}
    for model, source in distinct.items():
        shapes = _shapes(model)
        for name, info in model.model_fields.items():
            if name in fields and fields[name][1] != shapes[name] and name not in settled:
                raise StateConflict(
                    f"{sources[name]} and {source} have a field {name!r} of different types in the {what}",
                    hint="give one of them another name, or share one model",
                )
            fields[name], sources[name] = (info, shapes[name]), source
    joined = _join(what, tuple(distinct.items()), {name: info for name, (info, _) in fields.items()})
    return MergedState(
        joined,
        schema_of(f"the {what}", joined, "validation"),
        MappingProxyType(sources),
        tuple(Contributed(model, source) for model, source in distinct.items()),
    )


def _join(
    what: str, models: Sequence[tuple[type[BaseModel], Source]], fields: Mapping[str, FieldInfo]
) -> type[BaseModel]:
    if len(models) == 1:
        return models[0][0]
    classes = [model for model, _ in models]
    # The later first, as Python looks things up; one that another inherits from is there by that other.
    bases = tuple(
        one for one in reversed(classes) if not any(issubclass(other, one) for other in classes if other is not one)
    )
    inherited = {name: info for one in reversed(bases) for name, info in one.model_fields.items()}
    definitions: dict[str, Any] = {
        name: (info.annotation, info) for name, info in fields.items() if info is not inherited[name]
    }
    try:
        validators = hidden_validators(bases, frozenset(fields))
        name = "".join(word.title() for word in what.split())
        joined = create_model(name, __base__=bases, __validators__=validators, **definitions)
        if (unfit := unfit_default(joined)) is not None:
            raise Unjoinable(f"the default of {unfit} does not fit what all of them ask for")
    except (TypeError, PydanticUserError, Unjoinable) as error:
        told = " and ".join(str(source) for model, source in models if model in bases)
        raise StateConflict(
            f"{told}: their models cannot be joined in the {what}: {' '.join(str(error).split())}",
            hint="give the fields or methods that meet other names, or share one model",
        ) from None
    return joined


def _shapes(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the JSON Schema of each field as text, without what may differ."""
    schema = state_schema(model).json_schema
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    root = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    properties: Mapping[str, Any] = root.get("properties", {})
    # A field that has itself left out of the schema is told by its annotation.
    return {
        name: json.dumps(_bare(properties.get(name, repr(info.annotation)), definitions), sort_keys=True)
        for name, info in model.model_fields.items()
    }


def _bare(schema: Any, definitions: Mapping[str, Any], above: tuple[str, ...] = ()) -> Any:
    """Return a schema without annotations and with its references written out, since names of classes say nothing."""
    if isinstance(schema, list):
        return [_bare(one, definitions, above) for one in schema]  # pyright: ignore[reportUnknownVariableType]  # JSON
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = schema  # pyright: ignore[reportUnknownVariableType]  # JSON
    if isinstance(ref := found.get("$ref"), str):
        name = ref.rpartition("/")[2]
        if name in above:
            return {"$ref": len(above) - above.index(name)}
        return _bare(definitions.get(name, {}), definitions, (*above, name))
    bare: dict[str, Any] = {}
    for key, value in found.items():
        if key == "properties":
            bare[key] = {field: _bare(inner, definitions, above) for field, inner in value.items()}
        elif key == "discriminator":
            bare[key] = value.get("propertyName")  # the options say the rest
        elif key in ("const", "enum"):
            bare[key] = value
        elif key not in _ANNOTATIONS:
            bare[key] = _bare(value, definitions, above)
    return bare
