"""What functions in ``uses`` may add, and what they may not (spec 1, C27–C29)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Context, DefinitionError, Preset, Resource, compose, tool
from capset.errors import CapabilityConflict


@tool
def add(a: int) -> int:
    """Add."""
    return a


@tool
def find(a: int) -> int:
    """Find."""
    return a


class Options(BaseModel):
    limit: int = 3


class Diary(BaseModel):
    pages: list[str] = []


NOTES = Resource("notes", list[str], scope="session", default=list)
KIT = Capability(
    "kit",
    tools=[add],
    config=Options,
    presets={"full": Preset(tools=[find], instructions="Full."), "extra": Preset(instructions="Extra.")},
    default=["extra"],
)


def decide(ctx: Context) -> list[Capability]:
    return []


def decide_too(ctx: Context) -> list[Capability]:
    return []


def decided(agent: Agent, *added: Any, too: Any = ()) -> Any:
    def refs(uses: Any) -> Any:
        return tuple(use.ref if isinstance(use, Capability) else use for use in uses)

    return compose(agent, {decide: refs(added), decide_too: refs(too)})


@pytest.mark.spec("C28", "C29")
def test_naming_what_is_there_adds_nothing() -> None:
    user = Capability("user", uses=[KIT.with_presets(full=True)])
    agent = Agent("a", uses=[KIT.with_presets(full=False), user, decide])
    before = compose(agent)
    for added in ([KIT], [user], [KIT, user, KIT], [KIT.with_presets(extra=True)], [KIT.with_config(Options())]):
        after = decided(agent, *added)
        assert (after.static_hash, after.capabilities) == (before.static_hash, before.capabilities)
        assert len(after.capability_uses) == len(before.capability_uses)
        assert after.tools.keys() == before.tools.keys() == {"add"}


@pytest.mark.spec("C28", "C29")
def test_a_preset_that_is_switched_on_adds_itself_alone() -> None:
    agent = Agent("a", uses=[KIT.with_presets(full=False), decide, decide_too])
    after = decided(agent, KIT.with_presets(full=True), too=[KIT.with_presets(full=True)])
    assert list(after.tools) == ["add", "find"]
    assert after.instructions == ("Extra.", "Full.")
    assert [(choice.presets, choice.is_base, choice.is_dynamic) for choice in after.capability_uses] == [
        (("extra",), True, False),
        (("full",), False, True),
    ]
    assert str(after.tools["find"].source) == "capability 'kit', preset 'full' (a → decide() → kit)"
    assert after.static_hash != compose(agent).static_hash


@pytest.mark.spec("C28")
@pytest.mark.parametrize(
    ("ref", "would"),
    [
        (KIT.with_presets(extra=False), "switch off its preset 'extra'"),
        (KIT.with_config(Options(limit=4)), "configure it otherwise"),
        (KIT.with_names(prefix="x_"), "rename its tools"),
    ],
)
def test_what_is_there_is_not_taken_away(ref: Any, would: str) -> None:
    with pytest.raises(DefinitionError, match=rf"'kit' is already present, and decide\(\) would {would}") as refused:
        decided(Agent("a", uses=[KIT, decide]), ref)
    assert refused.value.hint


@pytest.mark.spec("C6", "C28")
def test_a_nearer_static_choice_stands_against_a_deeper_dynamic_one() -> None:
    deeper = Capability("deeper", uses=[KIT.with_config(Options(limit=9)).with_presets(extra=False)])
    agent = Agent("a", uses=[KIT.with_config(Options(limit=1)).with_presets(extra=True), decide])
    choice = decided(agent, deeper).by_capability[KIT]
    assert (choice.config, choice.presets) == (Options(limit=1), ("extra",))


@pytest.mark.spec("C27", "C29")
def test_what_is_added_may_have_functions_of_its_own() -> None:
    inner = Capability("inner", tools=[find], uses=[decide_too])
    agent = Agent("a", uses=[decide])
    after = decided(agent, inner, too=[KIT, inner])
    assert (after.dynamic, after.capabilities) == ((decide, decide_too), (inner, KIT))
    assert after.by_capability[KIT].path == ("a", "decide()", "inner", "decide_too()", "kit")
    assert decided(agent).dynamic == (decide,)


@pytest.mark.spec("C28")
def test_resources_and_state_must_be_declared_statically_somewhere() -> None:
    with_notes = Capability("with_notes", resources=[NOTES])
    with_state = Capability("with_state", presets={"log": Preset(state={"user": Diary})})
    for capability, declared in ((with_notes, "'notes'"), (with_state, "'user state'")):
        with pytest.raises(DefinitionError, match=f"is used dynamically and declares {declared}, which") as refused:
            decided(Agent("a", uses=[decide]), capability)
        assert str(refused.value.hint).startswith(f"use {capability.name} statically too")
    declaring = Agent("a", uses=[decide], resources=[NOTES], state={"user": Diary})
    assert decided(declaring, with_notes, with_state).capabilities == (with_notes, with_state)


@pytest.mark.spec("C8", "C28")
def test_what_is_added_may_not_take_a_name() -> None:
    with pytest.raises(CapabilityConflict, match=r"named 'kit': by a → kit and by a → decide\(\) → kit"):
        decided(Agent("a", uses=[KIT, decide]), Capability("kit"))
