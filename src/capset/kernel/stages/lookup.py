"""Look up: a tool that the composition does not have is 404 (spec 4, G2)."""

from __future__ import annotations

from dataclasses import replace

from capset.definitions.capabilities import AnyTool
from capset.errors import CapsetError, NotFound, unknown
from capset.kernel.invocation import Invocation, Road
from capset.kernel.stages.permission import permission


def unknown_road(name: str) -> Road:
    """Return the road of a name that is no tool: it leads to a 404, and to a record."""
    return Road(name, None, None, None, False, (_not_found,))


def refusing_road(road: Road, tool: AnyTool, error: CapsetError) -> Road:
    """Return a tool's road that leads to one refusal, and to a record: of a message that is wrong as a whole.

    Permission comes first here too, so that the refusal says nothing of a tool to those who may not use it.
    """

    def refuse(call: Invocation) -> None:
        raise error

    return replace(road, steps=(permission(tool), refuse))


def _not_found(call: Invocation) -> None:
    name, tools = call.road.name, call.place.snapshot.tools
    if name in tools:
        raise NotFound(f"the tool {name!r} that was given is not this agent's own of that name")
    known = [installed.qualified for installed in tools.values()] if "." in name else tools
    raise NotFound(unknown("tool", name, known))
