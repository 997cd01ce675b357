from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Capability, CapabilityRef, DefinitionError, Policy, Preset, Resource, tool
from capset.definitions.resources import Documents
from capset.errors import ToolNameConflict


@tool(description="Add.")
def add(a: int) -> int: ...


@tool(name="add", description="Add, too.")
def other_add(a: int) -> int: ...


class Notes(BaseModel):
    count: int = 0


GATE = Policy("gate", lambda request: True)
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
    for surface in SURFACES.keys() - {"context"}:
        assert getattr(preset.part, surface) == getattr(capability.part, surface)
    assert [entry.value for entry in preset.part.context] == [entry.value for entry in capability.part.context]
    assert repr(preset).startswith("Preset(context, files, instructions")


@pytest.mark.spec("C2")
@pytest.mark.parametrize("surface", [surface for surface in SURFACES if surface != "sequencer_state"])
def test_a_surface_that_was_given_empty_is_declared(surface: str) -> None:
    empty: Any = {} if isinstance(SURFACES[surface], dict) else []
    assert Preset(**{surface: empty}).part.declared == {surface}
    assert Preset(**{surface: None}).part.declared == frozenset()


@pytest.mark.spec("C3")
@pytest.mark.parametrize(
    ("default", "expected"),
    [
        (None, ("one", "two", "three")),
        (["three", "one", "three"], ("one", "three")),
        ({"two", "one"}, ("one", "two")),
        ((), ()),
        ("two", ("two",)),
    ],
)
def test_left_out_every_preset_is_on_and_given_exactly_those(default: Any, expected: tuple[str, ...]) -> None:
    assert Capability("c", presets=FULL.presets, default=default).default == expected


@pytest.mark.spec("C3")
@pytest.mark.parametrize(
    ("default", "message"),
    [
        (["x"], ": unknown preset 'x'; available: one"),
        ([5], ": unknown preset '5'"),
        ("on", ": unknown preset 'on'; did you mean 'one'"),
        (5, " must be a list"),
        ({"one": True}, " must be a list"),
    ],
)
def test_an_unknown_default_is_refused_at_definition(default: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=f"^capability 'c': default{message}"):
        Capability("c", presets={"one": Preset()}, default=default)


@pytest.mark.spec("C4")
def test_a_reference_is_new_and_one_step_from_its_base() -> None:
    first = FULL.with_presets(one=False)
    second = first.with_presets(one=True, two=False)
    assert first.base is second.base is FULL
    assert isinstance(first, CapabilityRef)
    assert (first.presets, second.presets, FULL.ref.presets) == ({"one": False}, {"one": True, "two": False}, {})
    assert FULL.default == ("one", "two", "three")
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
    assert chosen.presets == {"self": True, "class": True, "choices": False}


@pytest.mark.spec("C2", "C1")
@pytest.mark.parametrize(
    ("presets", "message"),
    [
        *(({name: Preset()}, "capability 'c': a preset's name must match") for name in ("One", "", 1)),
        *(({"one": wrong}, "capability 'c', preset 'one': .* is not a Preset") for wrong in (Preset, {"tools": []})),
        *((wrong, "capability 'c': presets must be a mapping") for wrong in ([Preset()], "one")),
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
    with pytest.raises(DefinitionError, match="capability 'c': policies gate the tools that it brings"):
        Capability("c", policies=[GATE], presets={"one": Preset(instructions="x")})
    assert Capability("c", policies=[GATE], presets={"one": Preset(tools=[add])}).part.policies == (GATE,)


def test_what_the_caller_gave_may_change_later() -> None:
    presets, choices = {"one": Preset()}, {"one": False}
    capability = Capability("c", presets=presets)
    ref = capability.with_presets(**choices)
    presets["two"] = Preset()
    choices["one"] = True
    assert (list(capability.presets), ref.presets) == (["one"], {"one": False})
    with pytest.raises(TypeError):
        capability.presets["two"] = Preset()  # pyright: ignore[reportIndexIssue]
