"""Starting one call and taking what came of it: what the session's doors and a handler's ``ctx.call`` share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from capset.definitions.capabilities import AnyTool
from capset.definitions.tools import Tool
from capset.errors import DefinitionError, InternalError, NoOutcome
from capset.kernel.invocation import MISSING, Invocation, Place, Road
from capset.kernel.pipeline import travel
from capset.kernel.results import Result
from capset.kernel.stages.lookup import refusing_road, unknown_road

MAX_DEPTH: Final = 50
"""How deeply calls may be nested. A recursion that Python had to stop could leave calls without a record."""


async def call_from(
    parent: Invocation, tool: AnyTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:  # arguments and result are of the tool's own types, which the callers' signatures state
    """Call a tool on behalf of another call: same principal, the parent's correlation and deadline (spec 1, C31)."""
    road, depth = road_of(parent.place, tool), parent.depth + 1
    if depth > MAX_DEPTH and road.tool is not None:
        road = refusing_road(road, tool, InternalError(f"Calls are nested too deeply: more than {MAX_DEPTH} levels."))
    call = Invocation(parent.place, road, bound(tool, args, kwargs))
    call.depth = depth
    call.cause = parent.correlation, parent.id
    call.deadline = parent.deadline
    await travel(call)
    return result_of(call)


def road_of(place: Place, tool: AnyTool) -> Road:
    """Return the road of one tool object; of one that the agent has not, a road to its refusal."""
    road = place.roads.by_tool.get(tool)
    if road is None and not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped callers
        raise DefinitionError(
            f"a call takes a Tool object; got {tool!r}",
            hint="to call by name: session.invoke(session.message(name, …))",
        )
    return road or unknown_road(tool.name)


def road_named(place: Place, name: str) -> Road:
    """Return the road of a name; of one that the agent has not, a road to its refusal."""
    return place.roads.by_name.get(name) or unknown_road(name)


def bound(tool: AnyTool, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments by name. What cannot be bound gets a name that no tool has, so that validation lists it."""
    if not args:
        return kwargs
    named = dict(zip(tool.parameters, args, strict=False))
    named |= {f"(positional {index + 1})": args[index] for index in range(len(tool.parameters), len(args))}
    return named | {f"{name} (given twice)" if name in named else name: value for name, value in kwargs.items()}


def result_of(call: Invocation) -> Any:
    """Return what a call gave, of the tool's own type. Raises the call's error, or ``NoOutcome`` if it gave nothing."""
    if call.error is not None:
        raise call.error
    if call.value is MISSING:
        raise NoOutcome(f"The tool {call.road.name!r} ended without a reply.", correlation=call.correlation)
    return call.value


def ended(call: Invocation, given: Any) -> Result[Any]:
    """Return what came of a call that has ended; ``given`` is its data, if it gave any."""
    data = None if call.value is MISSING or call.error else given
    snapshot = call.place.snapshot
    return Result(call.error is None, data, call.error, call.id, snapshot.runtime_hash, snapshot.prompt_hash)
