"""What dynamic ``uses`` come to, here and now (spec 1, C27–C29)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from capset.composition.compose import Composition, compose
from capset.definitions.references import AnyRef, DynamicUses
from capset.evaluation.code import read_code
from capset.evaluation.evaluate import evaluate_again
from capset.evaluation.growing import ask_uses
from capset.kernel.binding import bind
from capset.kernel.context import CallContext
from capset.kernel.execution import Origin, execution_of
from capset.kernel.files import SessionFiles
from capset.kernel.invocation import Invocation, Road
from capset.kernel.place import Place
from capset.kernel.stages.authentication import authenticate
from capset.kernel.stages.lookup import Find

MAX_OTHERS: Final = 100
"""How many different sets of capabilities one session remembers."""


def road_in(place: Place, name: str, find: Find) -> Road:
    """Return the road of a call for which the dynamic ``uses`` are to be asked first; then ``find`` finds its own."""

    async def decide(call: Invocation) -> None:
        authenticate(call)
        call.place = await current_place(place, call)
        call.road = find(call.place)
        for step in call.road.steps:
            pending = step(call)
            if pending is not None:
                await pending

    return Road(name, None, None, None, False, (decide,))


async def current_place(place: Place, origin: Origin) -> Place:
    """Return the place with what the dynamic ``uses`` of ``place`` add now: itself, or one with a child snapshot.

    Raises ``ContextError`` for a function that fails, and what ``compose`` raises of what it says.
    """
    dynamic = place.snapshot.composition.dynamic
    if not dynamic or place.snapshot.refused is not None:
        return place
    if place.data.states:
        await execution_of(origin).load()
    ctx = CallContext(origin)
    decided: dict[DynamicUses, tuple[AnyRef, ...]] = {}
    known: Place | None = None
    while pending := [one for one in dynamic if one not in decided]:
        decided |= {function: ask_uses(function, ctx) for function in pending}
        key = tuple((function, tuple(map(_key, refs))) for function, refs in decided.items())
        known = place.others.get(key)
        if known is None:
            known = await _place_of(place, decided)
            while len(place.others) >= MAX_OTHERS:
                del place.others[next(iter(place.others))]
            place.others[key] = known
        dynamic = known.snapshot.composition.dynamic
    return known or place


def _key(ref: AnyRef) -> Any:
    """Return what tells one reference from another, since each run makes new ones."""
    config: Any = None if ref.config is None else (type(ref.config), ref.config.model_dump_json())
    return ref.base, frozenset(ref.presets.items()), config, ref.prefix, frozenset((ref.rename or {}).items())


async def _place_of(place: Place, decided: Mapping[DynamicUses, tuple[AnyRef, ...]]) -> Place:
    composition = compose(place.block, decided, within=place.data)
    if (
        not any(one.is_dynamic for one in composition.chosen)
        and composition.dynamic == place.snapshot.composition.dynamic
    ):
        return place  # nothing is added: the set is the static one
    return await place_of(place, composition)


async def place_of(place: Place, composition: Composition) -> Place:
    """Return another composition's place in the same session: its snapshot, its roads, its files."""
    snapshot = await evaluate_again(place.snapshot, composition)
    await read_code(snapshot)
    files = SessionFiles(place.world, place.id, place.principal.org, composition.mounts)
    return Place(
        place.id,
        place.world,
        snapshot,
        bind(composition, snapshot.installed),
        files,
        place.data,
        terms=place.terms,
    )
