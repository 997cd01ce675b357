"""The names that a reference gives to tools, in the hash of a definition (spec 2, F5, F6, F12)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from capset import Agent, Capability, Preset, Principal, Toolkit, compose, evaluate, tool
from capset.definitions.tools.toolkits import DynamicToolkit

WHO = Principal("p")


def work(path: str) -> int:
    """Work."""
    return 1


@pytest.mark.spec("F5", "F6", "F12")
@pytest.mark.parametrize("place", ["tools", "toolkit", "preset"])
def test_the_names_that_a_reference_gives_are_covered_where_tools_are_made_at_run_time(place: str) -> None:
    generated = tool(name="made", description="Made.", effect="read")(work)
    fixed = tool(name="fixed", description="Fixed.", effect="read")(work)
    dynamic = DynamicToolkit("making", lambda ctx: [generated])
    members = {"tools": [fixed, dynamic], "toolkit": [fixed, Toolkit("kit", [dynamic])], "preset": [fixed]}[place]
    presets = {"more": Preset(tools=[dynamic])} if place == "preset" else {}
    capability = Capability("c", tools=members, presets=presets)

    def static(uses: Any) -> str:
        return compose(Agent("a", uses=[uses])).static_hash

    def runtime(uses: Any) -> str:
        return asyncio.run(evaluate(compose(Agent("a", uses=[uses])), principal=WHO)).runtime_hash

    # The same name of the fixed tool every time, so that its own reference moves nothing.
    prefixed = capability.with_names(prefix="p_", rename={"fixed": "fixed"})
    other = capability.with_names(prefix="q_", rename={"fixed": "fixed"})
    hashes = {static(capability), static(prefixed), static(other)}
    assert len(hashes) == len({runtime(capability), runtime(prefixed), runtime(other)}) == 3
    assert static(capability.with_names(prefix="", rename={"fixed": "fixed"})) == static(capability)
    if place == "preset":
        off = [ref.with_presets(more=False) for ref in (prefixed, other)]
        assert static(off[0]) == static(off[1]) == static(capability.with_presets(more=False))


@pytest.mark.spec("F6", "F12")
def test_names_say_nothing_more_where_all_tools_are_declared() -> None:
    fixed = tool(name="fixed", description="Fixed.", effect="read")(work)
    capability = Capability("c", tools=[fixed])
    prefixed, renamed = capability.with_names(prefix="p_"), capability.with_names(rename={"fixed": "p_fixed"})
    hashes = [compose(Agent("a", uses=[use])).static_hash for use in (prefixed, renamed, capability)]
    assert hashes[0] == hashes[1] != hashes[2]
