"""The contents of a session, as seen by its own code."""

from __future__ import annotations

from typing import Any

from capset.definitions.contexts import Context
from capset.definitions.resources import Documents, Resource
from capset.errors import StateError
from capset.testing.capability_suite.subject import Bench

_MOST = 1_000


async def look(bench: Bench) -> dict[str, Any]:
    """Return state, resources, documents and files by their names: JSON data and comparable values."""
    data = bench.session.snapshot.composition.data

    async def seen(ctx: Context) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for scope, state in data.states.items():
            for model in state.models if scope != "request" else ():
                value = await ctx.state(model.value, scope=scope).get()
                found[f"the {scope} state of {model.source}"] = value.model_dump(mode="json")
        for one in data.given:
            if one.scope == "request":
                continue
            if isinstance(one, Documents):
                found[f"the {one.scope} documents {one.name!r}"] = await ctx.documents(one).recent(_MOST)
            else:
                found[f"the {one.scope} resource {one.name!r}"] = await _value(ctx, one)
        return found

    found = await bench.within(seen)
    found["the files"] = await bench.session.files.list("/", recursive=True)
    return found


async def _value(ctx: Context, resource: Resource[Any]) -> Any:
    try:
        return resource.schema.jsonable(await ctx.resource(resource).get())
    except StateError:
        return None  # none yet, and no default
