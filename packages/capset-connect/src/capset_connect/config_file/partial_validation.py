"""Validation of a configuration file part by part, so that all problems of an invalid file are found at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, cast

from pydantic import ValidationError
from typing_extensions import TypeVar

from capset.errors import Field, closest
from capset.schemas.validation_errors import UNKNOWN_FIELD, validation_fields
from capset.wire.allowances import AllowanceShape, BudgetShape
from capset.wire.shapes import Shape
from capset.wire.tool_sources import (
    ApiShape,
    ClientCredentialsShape,
    McpResourceShape,
    McpServerShape,
    ToolRulesShape,
)
from capset_connect.config_file.actions import Given
from capset_connect.config_file.shapes import (
    ActionShape,
    CapabilitiesLayerShape,
    ConfigurationShape,
    GovernanceShape,
    OriginActionShape,
    SecurityShape,
)
from capset_connect.notifications.declarations import ChannelShape

S = TypeVar("S", bound=Shape)
LAYER: Final = "layers.capabilities"
_PARTS: Final[tuple[tuple[re.Pattern[str], type[Shape]], ...]] = (
    (re.compile(r"actions\.\d+"), ActionShape),
    (re.compile(rf"{re.escape(LAYER)}\.actions\.\d+"), OriginActionShape),
    (re.compile("governance"), GovernanceShape),
    (re.compile(r"governance\.allowance"), AllowanceShape),
    (re.compile(r"governance\.allowance\.(session|run)"), BudgetShape),
    (re.compile(r"mcp_servers\.[^.]+"), McpServerShape),
    (re.compile(r"apis\.[^.]+"), ApiShape),
    (re.compile(r"(mcp_servers|apis)\.[^.]+\.rules\.[^.]+"), ToolRulesShape),
    (re.compile(r"mcp_servers\.[^.]+\.resources\.[^.]+"), McpResourceShape),
    (re.compile(r"mcp_servers\.[^.]+\.oauth|apis\.[^.]+\.oauth\.[^.]+"), ClientCredentialsShape),
    (re.compile(r"notifications\.[^.]+"), ChannelShape),
    (re.compile(rf"{re.escape(LAYER)}\.security"), SecurityShape),
    (re.compile(re.escape(LAYER)), CapabilitiesLayerShape),
)


@dataclass(frozen=True, slots=True)
class Taken(Generic[S]):
    """A part of the file: its path, its valid content, and the documented names of its invalid members."""

    path: str
    shape: S
    dropped: frozenset[str]

    def place(self, member: str) -> str:
        """Return the path of a member in the file. ``member`` is its documented name, which the file may alias."""
        first, dot, rest = member.partition(".")
        field = type(self.shape).model_fields.get(first)
        named = (field.alias if field is not None else None) or first
        return ".".join(part for part in (self.path, named + dot + rest) if part)


def check_shape(data: Mapping[str, Any]) -> list[Field]:
    """Return the validation error of every invalid member of a file."""
    try:
        ConfigurationShape.model_validate(data)
    except ValidationError as error:
        return [_meant(field) for field in validation_fields(error, _names_of(ConfigurationShape), data)]
    return []


def _meant(field: Field) -> Field:
    """Add a suggestion to the error of an unknown field below the top level."""
    above, _, name = field.path.rpartition(".")
    kind = next((kind for pattern, kind in _PARTS if pattern.fullmatch(above)), None)
    if field.expected != UNKNOWN_FIELD or kind is None:
        return field
    return replace(field, did_you_mean=closest(name, _names_of(kind)))


def _names_of(kind: type[Shape]) -> list[str]:
    return [field.alias or name for name, field in kind.model_fields.items()]


def actions_in(data: Mapping[str, Any]) -> Iterator[tuple[Taken[ActionShape], Given]]:
    """Yield the valid content of the actions, in both forms."""
    forms: list[tuple[str, type[ActionShape]]] = [("actions", ActionShape), (f"{LAYER}.actions", OriginActionShape)]
    for path, shape in forms:
        entries = _member(data, path)
        for position, entry in enumerate(cast("list[Any]", entries) if isinstance(entries, list) else ()):
            if (taken := _take(f"{path}.{position}", shape, entry)) is not None:
                yield taken, Given(taken.shape, taken.dropped)


def governance_in(data: Mapping[str, Any]) -> Iterator[Taken[GovernanceShape] | Taken[SecurityShape]]:
    """Yield the valid content of the governance, in both forms."""
    if (part := _take("governance", GovernanceShape, data.get("governance"))) is not None:
        yield part
    if (part := _take(f"{LAYER}.security", SecurityShape, _member(data, f"{LAYER}.security"))) is not None:
        yield part


def channels_in(data: Mapping[str, Any]) -> Iterator[tuple[str, ChannelShape]]:
    """Yield the names and shapes of the valid channels."""
    channels = data.get("notifications")
    for name, channel in cast("dict[str, Any]", channels).items() if isinstance(channels, dict) else ():
        taken = _take(f"notifications.{name}", ChannelShape, channel)
        if taken is not None and not taken.dropped:
            yield name, taken.shape


def whole_in(data: Mapping[str, Any]) -> ConfigurationShape:
    """Return the valid members of a file, except the actions and the governance."""
    rest = {name: value for name, value in data.items() if name not in ("actions", "governance", "layers")}
    taken = _take("", ConfigurationShape, rest)
    return ConfigurationShape.model_validate({}) if taken is None else taken.shape


def _take(path: str, kind: type[S], raw: object) -> Taken[S] | None:
    """Return the valid content of a part; ``None`` if it is absent or lacks required members."""
    if not isinstance(raw, Mapping):
        return None
    members = cast("Mapping[str, Any]", raw)
    try:
        return Taken(path, kind.model_validate(members), frozenset())
    except ValidationError as error:
        wrong = {str(problem["loc"][0]) for problem in error.errors(include_url=False) if problem["loc"]}
    names = {field.alias or name: name for name, field in kind.model_fields.items()}
    try:
        fitting = kind.model_validate({name: value for name, value in members.items() if name not in wrong})
    except ValidationError:
        return None
    return Taken(path, fitting, frozenset(names.get(name, name) for name in wrong))


def _member(data: object, path: str) -> object:
    for name in path.split("."):
        if not isinstance(data, Mapping):
            return None
        data = cast("Mapping[str, object]", data).get(name)
    return data
