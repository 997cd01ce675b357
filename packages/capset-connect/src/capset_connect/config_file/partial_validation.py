"""Validation of a configuration file part by part, so that all problems of an invalid file are found at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Generic, cast, get_args

from pydantic import ValidationError
from typing_extensions import TypeVar

from capset.errors import Field, closest
from capset.schemas.validation_errors import UNKNOWN_FIELD, validation_fields
from capset.wire.agents import AgentDefinitionShape
from capset.wire.shapes import Shape
from capset_connect.config_file.actions import ActionEntry
from capset_connect.config_file.shapes import SERVER_MEMBERS, ActionShape, ConfigurationShape, GovernanceShape
from capset_connect.notifications.declarations import ChannelShape

S = TypeVar("S", bound=Shape)
_COLLECTIONS: Final = (list, dict)


@dataclass(frozen=True, slots=True)
class ValidPart(Generic[S]):
    """A part of the file: its path, its valid content, and the names of its invalid members."""

    path: str
    shape: S
    invalid: frozenset[str]

    def place(self, member: str) -> str:
        """Return the path of a member in the file."""
        return ".".join(part for part in (self.path, member) if part)


def check_shape(data: Mapping[str, Any]) -> list[Field]:
    """Return the validation error of every invalid member of a file."""
    try:
        ConfigurationShape.model_validate(data)
    except ValidationError as error:
        return [_with_advice(field) for field in validation_fields(error, _names_of(ConfigurationShape), data)]
    return []


def _with_advice(field: Field) -> Field:
    """Add advice to the error of an unknown field: a similar name, or the part of the file where it belongs."""
    if field.expected != UNKNOWN_FIELD:
        return field
    above, _, name = field.path.rpartition(".")
    shape = _shape_at(above)
    if shape is None:
        return field
    places = [place for place in _members().get(name, ()) if place != above]
    if not places:
        return replace(field, did_you_mean=closest(name, _names_of(shape)))
    here = "at the top level" if not above else f"in {above}"
    if shape is AgentDefinitionShape and "" in places and name not in SERVER_MEMBERS:
        advice = f"an agent with {name} needs a file of its own, which agents then names"
        return replace(field, expected=f"there is no such field {here}: {advice}", did_you_mean=None)
    there = " or ".join(f"in {place}" if place else "at the top level" for place in places[:_MAX_PLACES])
    return replace(field, expected=f"there is no such field {here}: it belongs {there}", did_you_mean=None)


_MAX_PLACES: Final = 3
"""The maximum number of places that an error names for a misplaced field."""


def _shape_at(path: str) -> type[Shape] | None:
    """Return the shape of the part of a file at a path; ``None`` if it has no fixed members."""
    shape: type[Shape] | None = ConfigurationShape
    names = path.split(".") if path else []
    while names and shape is not None:
        inner, depth = _inner_shape(shape, names.pop(0))
        shape, names = (None, names) if len(names) < depth else (inner, names[depth:])
    return shape


def _inner_shape(shape: type[Shape], name: str) -> tuple[type[Shape] | None, int]:
    """Return the shape in a member, and the number of names or indexes between the member and the shape."""
    field = next((field for key, field in shape.model_fields.items() if name == (field.alias or key)), None)
    return (None, 0) if field is None else _shape_in(field.annotation, 0)


def _shape_in(annotation: Any, depth: int) -> tuple[type[Shape] | None, int]:  # any annotation of a shape
    origin, arguments = getattr(annotation, "__origin__", None), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Shape):
        return annotation, depth
    depth += origin in _COLLECTIONS
    shapes = (_shape_in(argument, depth) for argument in arguments)
    return next((shape for shape in shapes if shape[0] is not None), (None, 0))


@cache
def _members() -> Mapping[str, tuple[str, ...]]:
    """Return the places of every member of a file by its name, those nearest the top first."""
    places: dict[str, list[str]] = {}
    level: list[tuple[str, type[Shape]]] = [("", ConfigurationShape)]
    seen: set[type[Shape]] = set()
    while level:
        below: list[tuple[str, type[Shape]]] = []
        for place, shape in level:
            for key, field in shape.model_fields.items():
                name = field.alias or key
                places.setdefault(name, []).append(place)
                inner, depth = _shape_in(field.annotation, 0)
                if inner is not None and inner not in seen:
                    seen.add(inner)
                    below.append((".".join(part for part in (place, name, *["*"] * depth) if part), inner))
        level = below
    return {name: tuple(where) for name, where in places.items()}


def _names_of(kind: type[Shape]) -> list[str]:
    return [field.alias or name for name, field in kind.model_fields.items()]


def actions_in(data: Mapping[str, Any]) -> Iterator[tuple[ValidPart[ActionShape], ActionEntry]]:
    """Yield the valid content of the actions."""
    entries = data.get("actions")
    for position, entry in enumerate(cast("list[Any]", entries) if isinstance(entries, list) else ()):
        if (part := _valid_part(f"actions.{position}", ActionShape, entry)) is not None:
            yield part, ActionEntry(part.shape, part.invalid)


def governance_in(data: Mapping[str, Any]) -> GovernanceShape | None:
    """Return the valid content of the governance."""
    part = _valid_part("governance", GovernanceShape, data.get("governance"))
    return None if part is None else part.shape


def channels_in(data: Mapping[str, Any]) -> Iterator[tuple[str, ChannelShape]]:
    """Yield the names and shapes of the valid channels."""
    channels = data.get("notifications")
    for name, channel in cast("dict[str, Any]", channels).items() if isinstance(channels, dict) else ():
        part = _valid_part(f"notifications.{name}", ChannelShape, channel)
        if part is not None and not part.invalid:
            yield name, part.shape


def other_members(data: Mapping[str, Any]) -> ConfigurationShape:
    """Return the valid members of a file, except the actions and the governance."""
    rest = {name: value for name, value in data.items() if name not in ("actions", "governance")}
    part = _valid_part("", ConfigurationShape, rest)
    return ConfigurationShape.model_validate({}) if part is None else part.shape


def _valid_part(path: str, kind: type[S], raw: object) -> ValidPart[S] | None:
    """Return the valid content of a part; ``None`` if it is absent or lacks required members."""
    if not isinstance(raw, Mapping):
        return None
    members = cast("Mapping[str, Any]", raw)
    try:
        return ValidPart(path, kind.model_validate(members), frozenset())
    except ValidationError as error:
        wrong = {str(problem["loc"][0]) for problem in error.errors(include_url=False) if problem["loc"]}
    try:
        valid = kind.model_validate({name: value for name, value in members.items() if name not in wrong})
    except ValidationError:
        return None
    return ValidPart(path, valid, frozenset(wrong))
