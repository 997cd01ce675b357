"""A capability with some of its tools alone, each in a narrower form (spec 4, G27)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import TypeVar

from capset.definitions.capabilities import AnyCapability
from capset.definitions.parts import Part
from capset.definitions.presets import Preset
from capset.definitions.tools import AnyTool
from capset.errors import DefinitionError

T = TypeVar("T", AnyCapability, Preset)


def narrowed(capability: AnyCapability, tools: Mapping[AnyTool, Sequence[AnyTool]]) -> AnyCapability:
    """Return a capability of the same name with just these tools: each of its own by those that take its place.

    All else is that capability's, and ``ctx.config(capability)`` and its like find it by either. Raises
    ``DefinitionError`` for a tool that stands in a toolkit, whose policies gate it there.
    """
    inside = {one for part in capability.parts.values() for one in part.members}
    if wrong := [one.name for one in tools if one not in inside]:
        raise DefinitionError(
            f"the tool {wrong[0]!r} of {capability.name!r} stands in a toolkit and cannot be narrowed"
        )
    presets = {name: _preset(preset, tools) for name, preset in capability.presets.items()}
    changed = {
        "part": _part(capability.part, tools),
        "presets": MappingProxyType(presets),
        "origin": capability.origin or capability,
    }
    return _copy(capability, changed)


def _preset(preset: Preset, tools: Mapping[AnyTool, Sequence[AnyTool]]) -> Preset:
    return _copy(preset, {"part": _part(preset.part, tools)})


def _part(part: Part, tools: Mapping[AnyTool, Sequence[AnyTool]]) -> Part:
    kept = tuple(other for one in part.tools for other in tools.get(one, ()))
    return replace(part, members=kept, tools=kept)


def _copy(original: T, changed: Mapping[str, object]) -> T:
    """Return a copy of something frozen whose own constructor takes other arguments than its fields."""
    made = object.__new__(type(original))
    for field in fields(original):
        object.__setattr__(made, field.name, changed.get(field.name, getattr(original, field.name)))
    return made
