"""Resources and state: stored data, and the scope that determines its lifetime (spec 1, C33)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, cast, get_args
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_json
from typing_extensions import TypeForm, TypeVar

from capset.definitions.identity import Definition
from capset.definitions.names import RESOURCE, checked_copy, checked_list, checked_name, checked_text, sealed
from capset.errors import DefinitionError, ResourceConflict, unknown
from capset.schemas.own_code import is_own_function
from capset.schemas.schema import Schema, schema_of

Scope = Literal["request", "session", "user", "org"]
"""``request`` is one run and is never stored; ``user`` and ``org`` exist only for users and for members of an org."""

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)

# A cache over the few classes that definitions declare; not a registry.
_SCHEMAS: Final[WeakKeyDictionary[type[BaseModel], Schema]] = WeakKeyDictionary()

ScopeState = Mapping[Scope, type[BaseModel]]
"""One model for the state of each scope that has any."""


def checked_scope(owner: str, scope: object) -> Scope:
    """Return ``scope`` if it is a known scope; raise ``DefinitionError`` otherwise."""
    for candidate in SCOPES:
        if scope == candidate:
            return candidate
    raise DefinitionError(f"{owner}: {unknown('scope', str(scope), SCOPES)}")


def checked_state(owner: str, state: Mapping[Scope, type[BaseModel]]) -> ScopeState:
    """Return the models by scope, frozen. Raises ``DefinitionError`` for an unknown scope, or an unsuitable model."""
    if not isinstance(state, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may not be typed
        raise DefinitionError(f"{owner}: state is a mapping of scopes to models; got {state!r}")
    return MappingProxyType(
        {checked_scope(owner, scope): checked_model(f"{owner}: {scope} state", model) for scope, model in state.items()}
    )


def checked_model(label: str, model: object) -> type[BaseModel]:
    """Return ``model`` if it can be a model of shared state, whose fields are stored one by one; raise otherwise."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise DefinitionError(f"{label} is a pydantic model class; got {model!r}")
    if model.__pydantic_root_model__:  # importing RootModel takes longer than the rest of this module
        raise DefinitionError(f"{label}: {model.__name__} has no fields; give a model with fields")
    if model.model_config.get("extra") == "allow":
        raise DefinitionError(f"{label}: {model.__name__} allows extra fields, so it would take those of other models")
    for name, field in model.model_fields.items():
        if field.alias is not None or field.validation_alias is not None or field.serialization_alias is not None:
            raise DefinitionError(f"{label}: {model.__name__}.{name} has an alias; state is kept under its own names")
        if field.exclude:
            raise DefinitionError(f"{label}: {model.__name__}.{name} has exclude=True, so it could not be stored")
    if model.__pydantic_decorators__.model_serializers:
        raise DefinitionError(f"{label}: {model.__name__} has a model_serializer; state is stored field by field")
    if model in _SCHEMAS:
        return model
    schema = schema_of(label, model, "validation")
    schema.refuse_secrets(label)
    if (problem := invalid_default_fields(model)) is not None:
        raise DefinitionError(
            f"{label}: {model.__name__}: {problem} needs a default that fits: state exists before it is first written"
        )
    _SCHEMAS[model] = schema
    return model


def state_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of a model of shared state, compiled once."""
    return _SCHEMAS.get(model) or _SCHEMAS.setdefault(model, schema_of(model.__name__, model, "validation"))


def invalid_default_fields(model: type[BaseModel]) -> str | None:
    """Return the fields without a default, or with one that could not be read back; ``None`` if there are none."""
    try:
        dumped = model().model_dump(mode="json", warnings=False)
        model.model_validate_json(to_json(dumped), strict=True)
    except ValidationError as error:
        places = dict.fromkeys(str(problem["loc"][0]) if problem["loc"] else "the model" for problem in error.errors())
        return ", ".join(places)
    except PydanticSerializationError:
        return "the model"
    return None


T = TypeVar("T")
_NO_DEFAULT: Final[Any] = object()  # no default; of any type, since it is used in place of a value


@sealed
@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, init=False)
class Resource(Definition, Generic[T]):
    """A value of one type that outlives a call: ``Resource("notes", list[str], scope="session", default=list)``.

    Frozen, and compared by identity. ``schema`` validates every write and every read. Handlers access the value through
    ``ctx.resource(notes)``.
    """

    name: str
    scope: Scope
    description: str
    schema: Schema
    make_default: Callable[[], T] | None
    has_own_default: bool
    """Whether its default is made by a function that the host wrote."""

    def __init__(
        self,
        name: str,
        type: TypeForm[T],
        *,
        scope: Scope,
        default: T | Callable[[], T] = _NO_DEFAULT,
        description: str = "",
    ) -> None:
        """Compile the schema. ``default`` is the value before the first write, or a function that makes it.

        Raises ``DefinitionError`` for a type without a schema or with secrets in it, and for an invalid default.
        """
        owner = f"resource {name!r}"
        store = object.__setattr__
        store(self, "name", checked_name("a resource's name", name, RESOURCE))
        store(self, "scope", checked_scope(owner, scope))
        store(self, "description", checked_text(f"{owner}: description", description))
        schema = schema_of(owner, type, "validation")
        schema.refuse_secrets(owner)
        store(self, "schema", schema)
        store(self, "make_default", _default_maker(owner, schema, default))
        store(self, "has_own_default", is_own_function(default))

    def __repr__(self) -> str:
        return f"Resource({self.name!r}, scope={self.scope!r})"


AnyResource = Resource[Any]
"""A resource whose type does not matter here."""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Documents(Definition):
    """A collection of texts that can be searched by their words: ``Documents("memories", scope="user")``.

    Frozen, and compared by identity. Handlers access the texts through ``ctx.documents(memories)``.
    """

    name: str
    scope: Scope
    description: str = ""

    def __post_init__(self) -> None:
        """Raise ``DefinitionError`` for a bad name, or the scope ``request``, which stores nothing to search."""
        checked_name("a resource's name", self.name, RESOURCE)
        if checked_scope(f"documents {self.name!r}", self.scope) == "request":
            raise DefinitionError(f"documents {self.name!r} need the scope session, user or org")


def distinct_resources(owner: str, resources: Iterable[AnyResource | Documents]) -> tuple[AnyResource | Documents, ...]:
    """Return each resource once, in order. Raises ``ResourceConflict`` for two with one name in one scope."""
    distinct: dict[tuple[Scope, str], AnyResource | Documents] = {}
    for entry in checked_list(f"{owner}: resources", resources):
        if not isinstance(entry, (Resource, Documents)):
            raise DefinitionError(f"{owner}: {entry!r} is not a Resource")
        resource = cast("AnyResource | Documents", entry)
        if distinct.setdefault((resource.scope, resource.name), resource) is not resource:
            raise ResourceConflict(f"{owner}: two different {resource.scope} resources are named {resource.name!r}")
    return tuple(distinct.values())


def _default_maker(owner: str, schema: Schema, default: Any) -> Callable[[], Any] | None:
    if default is _NO_DEFAULT:
        return None

    frozen_default = default if callable(default) else checked_copy(f"{owner}: its default", default)

    def make() -> Any:
        return frozen_default() if callable(frozen_default) else deepcopy(frozen_default)

    try:
        schema.check(make())
    except ValidationError as error:
        raise DefinitionError(f"{owner}: its default does not fit: {error.errors()[0]['msg']}") from None
    except Exception as error:
        raise DefinitionError(f"{owner}: its default cannot be made: {error}") from error
    return make
