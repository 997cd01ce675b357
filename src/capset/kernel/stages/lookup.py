"""Look up: a tool that the composition does not have is 404 (spec 4, G2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from capset.errors import CapsetError, InvalidArguments, NotFound, unknown
from capset.kernel.invocation import Invocation, Road
from capset.kernel.place import Place
from capset.kernel.stages.authentication import authenticate

Find = Callable[[Place], Road]
"""Finds the road of a call in a place."""


def unknown_road(name: str) -> Road:
    """Return the road of a name that is no tool: it leads to a 404, and to a record."""
    return Road(name, None, None, None, False, (authenticate, _not_found))


def ambiguous_road(road: Road) -> Road:
    """Return a road that refuses a tool object which is installed under several names (spec 1, C15)."""
    return refusing_road(
        road,
        InvalidArguments(
            f"the tool {road.name!r} is installed under several names here, so that it is not said which is meant",
            hint="call it by one of its names: session.invoke(session.message(name, …))",
        ),
    )


def refusing_road(road: Road, error: CapsetError) -> Road:
    """Return a tool's road that leads to one refusal, and to a record: of a message that is wrong as a whole.

    Authentication and permission, every road's first steps, come first here too, so that the refusal says nothing of a
    tool to those who may not use it.
    """

    def refuse(call: Invocation) -> None:
        raise error

    return replace(road, steps=(*road.steps[:2], refuse))


def _not_found(call: Invocation) -> None:
    name, tools = call.road.name, call.place.snapshot.tools
    if name in tools:
        raise NotFound(f"the tool {name!r} that was given is not this agent's own of that name")
    for one in call.place.snapshot.composition.chosen:
        for preset, part in one.capability.presets.items():
            if preset not in one.presets and name in [one.names.get(tool.name) for tool in part.part.tools]:
                raise NotFound(
                    f"the tool {name!r} belongs to the preset {preset!r} of {one.capability.name!r}, which is off here",
                    hint=f"use {one.capability.name}.with_presets({preset}=True)",
                )
    types = [installed.tool.type for installed in tools.values() if installed.tool.contract]
    known = [installed.qualified for installed in tools.values()] if "." in name else tools
    raise NotFound(unknown("tool", name, [*known, *types]))
