"""Typed data with a scope and a name of its own (spec 1, C33–C36)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, Generic, cast

from pydantic import ValidationError
from typing_extensions import TypeForm, TypeVar

from capset.definitions.names import RESOURCE, checked, checked_text, listed
from capset.definitions.schemas import Schema, schema_of
from capset.definitions.scopes import Scope, checked_scope
from capset.definitions.sealed import sealed
from capset.errors import DefinitionError, ResourceConflict

T = TypeVar("T")
_NONE: Final[Any] = object()  # no default; of any type, since it stands where a value does


@sealed
@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True, init=False)
class Resource(Generic[T]):
    """A value of one type that outlives a call: ``Resource("notes", list[str], scope="session", default=list)``.

    Frozen, and told apart by identity. ``schema`` validates at every write and every read. Handlers reach the value by
    ``ctx.resource(notes)``.
    """

    name: str
    scope: Scope
    description: str
    schema: Schema
    make_default: Callable[[], T] | None

    def __init__(
        self,
        name: str,
        type: TypeForm[T],
        *,
        scope: Scope,
        default: T | Callable[[], T] = _NONE,
        description: str = "",
    ) -> None:
        """Compile the schema. ``default`` is what is there before the first write, or what makes it.

        Raises ``DefinitionError`` for a type without a schema or with secrets in it, and a default that does not fit.
        """
        owner = f"resource {name!r}"
        store = object.__setattr__
        store(self, "name", checked("a resource's name", name, RESOURCE))
        store(self, "scope", checked_scope(owner, scope))
        store(self, "description", checked_text(f"{owner}: description", description))
        schema = schema_of(owner, type, "validation")
        schema.refuse_secrets(owner)
        store(self, "schema", schema)
        store(self, "make_default", _maker(owner, schema, default))

    def __repr__(self) -> str:
        return f"Resource({self.name!r}, scope={self.scope!r})"


AnyResource = Resource[Any]
"""A resource whose type does not matter here."""


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Documents:
    """A collection of texts that can be searched by their words: ``Documents("memories", scope="user")``.

    Frozen, and told apart by identity. Handlers reach the texts by ``ctx.documents(memories)``.
    """

    name: str
    scope: Scope
    description: str = ""

    def __post_init__(self) -> None:
        """Raise ``DefinitionError`` for a bad name, or the scope ``request``, which keeps nothing to be searched."""
        checked("a resource's name", self.name, RESOURCE)
        if checked_scope(f"documents {self.name!r}", self.scope) == "request":
            raise DefinitionError(f"documents {self.name!r} live in a session, or with a user or an org")


def distinct_resources(owner: str, resources: Iterable[AnyResource | Documents]) -> tuple[AnyResource | Documents, ...]:
    """Return each resource once, in order. Raises ``ResourceConflict`` for two of one name in one scope."""
    kept: dict[tuple[Scope, str], AnyResource | Documents] = {}
    for entry in listed(f"{owner}: resources", resources):
        if not isinstance(entry, (Resource, Documents)):
            raise DefinitionError(f"{owner}: {entry!r} is not a Resource")
        one = cast("AnyResource | Documents", entry)
        if kept.setdefault((one.scope, one.name), one) is not one:
            raise ResourceConflict(f"{owner}: two different {one.scope} resources are named {one.name!r}")
    return tuple(kept.values())


def _maker(owner: str, schema: Schema, default: Any) -> Callable[[], Any] | None:
    if default is _NONE:
        return None

    def make() -> Any:
        return default() if callable(default) else deepcopy(default)

    try:
        schema.check(make())
    except ValidationError as error:
        raise DefinitionError(f"{owner}: its default does not fit: {error.errors()[0]['msg']}") from None
    except Exception as error:
        raise DefinitionError(f"{owner}: its default cannot be made: {error}") from error
    return make
