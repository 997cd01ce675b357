"""What clients may read of a session's data (spec 1, C36)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capset.definitions.resources import Resource
from capset.definitions.scopes import Scope
from capset.kernel.execution import STORED, Origin, execution_of, is_there


async def exposed(origin: Origin) -> Mapping[Scope, Mapping[str, Any]]:
    """Return everything that ``expose=`` names, as JSON data.

    A scope that is not there, or of a run, has nothing; nor has a resource without a default before it is written.
    """
    execution, place = execution_of(origin), origin.place
    await execution.load()
    readable = place.snapshot.composition.exposed
    found: dict[Scope, dict[str, Any]] = {}
    for scope in STORED:
        if not is_there(place, scope):
            continue
        shown: dict[str, Any] = {}
        if fields := {name for kind, of, name in readable if (kind, of) == ("state", scope)}:
            shown |= execution.view(scope).model_dump(mode="json", include=fields)
        for name, resource in execution.resources(scope).items():
            if ("resource", scope, name) in readable and isinstance(resource, Resource):
                handle = execution.resource(resource)
                if resource.make_default is not None or await handle.is_there():
                    shown[name] = resource.schema.jsonable(await handle.get())
        if shown:
            found[scope] = shown
    return found
