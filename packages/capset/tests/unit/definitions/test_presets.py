from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Capability, CapabilityRef, DefinitionError, Policy, Preset, Request, Resource, tool
from capset.definitions.resources import Documents
from capset.errors import ToolNameConflict


@tool
def add(a: int) -> int:
    """Add."""
    return a


@tool(name="add")
def other_add(a: int) -> int:
    """Add, too."""
    return a


class Notes(BaseModel):
    count: int = 0


def gate(request: Request) -> bool:
    return True


GATE = Policy("gate", gate)
SURFACES: dict[str, Any] = {
    "instructions": "Do.",
    "context": [{"mood": "good"}],
    "tools": [add],
    "policies": [GATE],
    "resources": [Resource("notes", list[str], scope="session"), Documents("texts", scope="user")],
    "state": {"session": Notes},
    "sequencer_state": Notes,
    "targets": {"other": Notes},
    "files": {"/a.txt": "a"},
    "model_settings": {"temperature": 0.5},
}
FULL = Capability("c", presets={"one": Preset(tools=[add]), "two": Preset(instructions="Two."), "three": Preset()})


@pytest.mark.spec("C2")
def test_a_preset_declares_every_surface_of_a_capability() -> None:
    preset, capability = Preset(**SURFACES), Capability("c", **SURFACES)
    assert preset.part.declared == capability.part.declared == frozenset(SURFACES)
    for surface in SURFACES:
        declared, expected = getattr(preset.part, surface), getattr(capability.part, surface)
        if surface != "context":
            assert declared == expected
    assert [entry.value for entry in preset.part.context] == [entry.value for entry in capability.part.context]
    assert repr(preset).startswith("Preset(context, files, instructions")


@pytest.mark.spec("C2")
@pytest.mark.parametrize("surface", SURFACES)
def test_a_surface_that_was_given_empty_is_declared(surface: str) -> None:
    if surface == "sequencer_state":
        return
    empty: Any = {} if isinstance(SURFACES[surface], dict) else []
    assert Preset(**{surface: empty}).part.declared == {surface}
    assert Preset(**{surface: None}).part.declared == frozenset()


@pytest.mark.spec("C3")
def test_left_out_every_preset_is_on_and_given_exactly_those() -> None:
    presets = FULL.presets
    assert FULL.default == ("one", "two", "three")
    assert Capability("c", presets=presets, default=["three", "one", "three"]).default == ("one", "three")
    assert Capability("c", presets=presets, default={"two", "one"}).default == ("one", "two")
    assert Capability("c", presets=presets, default=()).default == ()
    assert Capability("c", presets=presets, default="two").default == ("two",)
    assert Capability("c", default=[]).default == ()


@pytest.mark.spec("C3")
@pytest.mark.parametrize(
    ("default", "message"),
    [
        (["oen"], "capability 'c': default: unknown preset 'oen'; did you mean 'one'?"),
        (["x"], "capability 'c': default: unknown preset 'x'; there is: one"),
        ([5], "capability 'c': default: unknown preset '5'"),
        ("on", "capability 'c': default: unknown preset 'on'; did you mean 'one'?"),
        (5, "capability 'c': default must be a list; got 5"),
        ({"one": True}, "capability 'c': default must be a list"),
    ],
)
def test_an_unknown_default_is_refused_at_definition(default: Any, message: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        Capability("c", presets={"one": Preset()}, default=default)
    assert refused.value.code == "invalid_definition"
    assert str(refused.value).startswith(message)


@pytest.mark.spec("C4")
def test_a_reference_is_new_frozen_and_one_step_from_its_base() -> None:
    first = FULL.with_presets(one=False)
    second = first.with_presets(one=True, two=False)
    assert first.base is second.base is FULL
    assert isinstance(first, CapabilityRef)
    assert dict(first.presets) == {"one": False}
    assert dict(second.presets) == {"one": True, "two": False}
    assert dict(FULL.ref.presets) == {}
    assert FULL.default == ("one", "two", "three")
    for wrong in ("presets", "base", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(first, wrong, {})
    with pytest.raises(TypeError):
        first.presets["two"] = True  # pyright: ignore[reportIndexIssue]
    assert repr(second) == "CapabilityRef('c', one=True, two=False)"


@pytest.mark.spec("C4")
@pytest.mark.parametrize("definition", [FULL, FULL.with_presets(one=True)])
def test_an_unknown_preset_is_refused_at_once(definition: Any) -> None:
    with pytest.raises(DefinitionError, match=r"capability 'c': unknown preset 'tow'; did you mean 'two'\?"):
        definition.with_presets(tow=True)
    for wrong in (1, 0, None, "yes"):
        with pytest.raises(DefinitionError, match="capability 'c', preset 'two': True or False; got"):
            definition.with_presets(two=wrong)


@pytest.mark.spec("C4")
def test_every_name_that_a_preset_can_have_can_be_chosen() -> None:
    awkward = Capability("c", presets={"self": Preset(), "class": Preset(), "choices": Preset()})
    chosen = awkward.with_presets(**{"self": False, "class": True}).with_presets(choices=False, self=True)
    assert dict(chosen.presets) == {"self": True, "class": True, "choices": False}


@pytest.mark.spec("C2", "C1")
@pytest.mark.parametrize(
    ("presets", "message"),
    [
        ({"One": Preset()}, "capability 'c': a preset's name must match"),
        ({"": Preset()}, "capability 'c': a preset's name must match"),
        ({1: Preset()}, "capability 'c': a preset's name must match"),
        ({"one": Preset}, "capability 'c', preset 'one': .* is not a Preset"),
        ({"one": {"tools": []}}, "capability 'c', preset 'one': .* is not a Preset"),
        ([Preset()], "capability 'c': presets must be a mapping"),
        ("one", "capability 'c': presets must be a mapping"),
    ],
)
def test_what_is_no_preset_is_refused(presets: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Capability("c", presets=presets)


@pytest.mark.spec("C2", "C15")
def test_one_preset_has_no_two_tools_of_one_name_but_two_presets_may() -> None:
    with pytest.raises(ToolNameConflict, match="a preset: two different tools are named 'add'"):
        Preset(tools=[add, other_add])
    either = Capability("c", presets={"one": Preset(tools=[add]), "other": Preset(tools=[other_add])})
    assert either.every_tool == (add, other_add)


@pytest.mark.spec("C1", "G7")
def test_policies_that_would_gate_nothing_are_refused() -> None:
    with pytest.raises(DefinitionError, match="a preset: policies gate the tools that it brings, and it brings none"):
        Preset(policies=[GATE])
    with pytest.raises(DefinitionError, match="capability 'c': policies gate the tools that it brings") as refused:
        Capability("c", policies=[GATE], presets={"one": Preset(instructions="x")})
    assert refused.value.hint == "an agent's own policies gate every tool that the agent has"
    assert Capability("c", policies=[GATE], presets={"one": Preset(tools=[add])}).part.policies == (GATE,)


def test_what_the_caller_gave_may_change_later() -> None:
    presets, choices = {"one": Preset()}, {"one": False}
    capability = Capability("c", presets=presets)
    ref = capability.with_presets(**choices)
    presets["two"] = Preset()
    choices["one"] = True
    assert list(capability.presets) == ["one"]
    assert dict(ref.presets) == {"one": False}
    with pytest.raises(TypeError):
        capability.presets["two"] = Preset()  # pyright: ignore[reportIndexIssue]
