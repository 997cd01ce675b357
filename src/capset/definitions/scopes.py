"""Where data lives, and for how long (spec 1, C33)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from capset.definitions.schemas import Schema, schema_of
from capset.errors import DefinitionError, unknown

Scope = Literal["request", "session", "user", "org"]
"""``request`` is one run and is never stored; ``user`` and ``org`` are there for users, and for members of an org."""

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

# A memo over the classes that definitions declare, which are few; not a registry.
_SCHEMAS: Final[WeakKeyDictionary[type[BaseModel], Schema]] = WeakKeyDictionary()

ScopeState = Mapping[Scope, type[BaseModel]]
"""One model for the state of each scope that has any."""


def checked_scope(owner: str, scope: object) -> Scope:
    """Return ``scope`` if there is such a scope; raise ``DefinitionError`` otherwise."""
    for known in SCOPES:
        if scope == known:
            return known
    raise DefinitionError(f"{owner}: {unknown('scope', str(scope), SCOPES)}")


def checked_state(owner: str, state: Mapping[Scope, type[BaseModel]]) -> ScopeState:
    """Return the models by scope, frozen. Raises ``DefinitionError`` for what is no scope, or no model for state."""
    if not isinstance(state, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
        raise DefinitionError(f"{owner}: state is a mapping of scopes to models; got {state!r}")
    return MappingProxyType(
        {checked_scope(owner, scope): checked_model(f"{owner}: {scope} state", model) for scope, model in state.items()}
    )


def checked_model(what: str, model: object) -> type[BaseModel]:
    """Return ``model`` if it can be the model of shared state, whose fields are stored one by one; raise otherwise."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise DefinitionError(f"{what} is a pydantic model class; got {model!r}")
    if model.__pydantic_root_model__:  # to import RootModel takes longer than all the rest of this module
        raise DefinitionError(f"{what}: {model.__name__} has no fields; give a model with fields")
    if model.model_config.get("extra") == "allow":
        raise DefinitionError(f"{what}: {model.__name__} allows extra fields, so it would take those of other models")
    for name, field in model.model_fields.items():
        if field.alias is not None or field.validation_alias is not None or field.serialization_alias is not None:
            raise DefinitionError(f"{what}: {model.__name__}.{name} has an alias; state is kept under its own names")
        if field.exclude:
            raise DefinitionError(f"{what}: {model.__name__}.{name} has exclude=True, so it could not be stored")
    if model.__pydantic_decorators__.model_serializers:
        raise DefinitionError(f"{what}: {model.__name__} has a model_serializer; state is stored field by field")
    if model in _SCHEMAS:
        return model
    schema = schema_of(what, model, "validation")
    schema.refuse_secrets(what)
    if (problem := unfit_default(model)) is not None:
        raise DefinitionError(
            f"{what}: {model.__name__}: {problem} needs a default that fits: state is there before anybody writes it"
        )
    _SCHEMAS[model] = schema
    return model


def state_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a model of shared state, compiled once."""
    return _SCHEMAS.get(model) or _SCHEMAS.setdefault(model, schema_of(model.__name__, model, "validation"))


def unfit_default(model: type[BaseModel]) -> str | None:
    """Return the fields of a model that have no default, or one that reading what is stored would refuse."""
    try:
        made = model().model_dump(mode="json", warnings=False)
        model.model_validate_json(to_json(made), strict=True)
    except ValidationError as error:
        places = dict.fromkeys(str(problem["loc"][0]) if problem["loc"] else "the model" for problem in error.errors())
        return ", ".join(places)
    except PydanticSerializationError:
        return "the model"
    return None
