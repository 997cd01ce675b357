"""What is the same and what is another: names, aliases, statuses, bounds and order (spec 1, C7–C11)."""

from __future__ import annotations

from typing import Any

import pytest

from capset import Agent, Capability, DefinitionError, Preset, compose, parameterised, tool
from capset.errors import CapabilityConflict


@tool
def add(a: int) -> int:
    """Add."""
    return a


@parameterised
def storage(scope: str) -> Capability:
    return Capability(f"storage:{scope}", tools=[add])


def names(*uses: Any) -> list[str]:
    return [capability.name for capability in compose(Agent("a", uses=uses)).capabilities]


@pytest.mark.spec("C7", "C8", "C32")
def test_a_parameterised_capability_is_its_function_and_its_arguments() -> None:
    first, two = Capability("one", uses=[storage("user")]), Capability("two", uses=[storage("user"), storage("org")])
    assert names(first, two) == ["storage:user", "one", "storage:org", "two"]


@pytest.mark.spec("C8")
def test_two_identities_under_one_name_are_a_conflict_with_both_ways() -> None:
    nested = Capability("one", uses=[Capability("inner", uses=[Capability("notes")])])
    ways = ["a → one → inner → notes", "a → notes"]
    for uses, (first, second) in (([nested, Capability("notes")], ways), ([Capability("notes"), nested], ways[::-1])):
        with pytest.raises(CapabilityConflict) as refused:
            names(*uses)
        both = f"two different capabilities named 'notes': by {first} and by {second}"
        assert refused.value.message == f"agent 'a' uses {both}"
        assert refused.value.code == "capability_conflict"
        assert refused.value.hint


@pytest.mark.spec("C8", "C10")
def test_an_alias_is_a_name_that_nothing_else_may_have() -> None:
    old = Capability("memory", aliases=["notes", "remember", "notes"])
    assert old.aliases == ("notes", "remember")
    assert names(old, Capability("one", uses=[old]), old) == ["memory", "one"]
    gone, soon = (Capability("memory", status=status) for status in ("retired", "coming_soon"))
    others = Capability("notes"), Capability("other", aliases=["remember"]), Capability("x", aliases=["memory"])
    for other in (*others, gone, soon):
        for uses in ((old, other), (other, old)):
            with pytest.raises(CapabilityConflict, match=r"two different capabilities named '(notes|remember|memory)'"):
                names(*uses)


@pytest.mark.spec("C10")
@pytest.mark.parametrize("aliases", [["memory"], ["Big"], [""], [5], "x" * 51, 5, {"a": 1}])
def test_what_is_no_alias_is_refused(aliases: Any) -> None:
    with pytest.raises(DefinitionError, match=r"capability 'memory': (an alias|aliases|its name)"):
        Capability("memory", aliases=aliases)


def chain(length: int) -> Capability:
    last = Capability("c0")
    for number in range(1, length):
        last = Capability(f"c{number}", uses=[last])
    return last


@pytest.mark.spec("C11")
def test_depth_and_count_are_bounded() -> None:
    assert len(names(chain(100))) == 100
    for uses in ([chain(101)], [chain(60), *(Capability(f"d{number}") for number in range(41))]):
        with pytest.raises(DefinitionError, match="agent 'a' has more than 100 capabilities, one of them by a →") as no:
            names(*uses)
        assert no.value.hint
        assert len(str(no.value)) < 300


@pytest.mark.spec("C11", "C9")
def test_wide_diamonds_are_not_walked_way_by_way() -> None:
    below: list[Capability] = []
    for layer in range(50):
        below = [Capability(f"l{layer}-{side}", uses=below, tools=[add] if layer == 0 else []) for side in "ab"]
    composition = compose(Agent("a", uses=below))  # 2 ** 50 ways would take for ever
    assert len(composition.capabilities) == 100
    assert list(composition.tools) == ["add"]


@pytest.mark.spec("C3", "C5", "C17")
def test_presets_apply_in_the_order_of_their_declaration() -> None:
    presets = {name: Preset(instructions=name, model_settings={"last": name}) for name in ("z", "a", "m")}
    capability = Capability("c", instructions="base", presets=presets, default=["m", "z"])
    assert compose(Agent("a", uses=[capability])).instructions == ("base", "z", "m")
    composition = compose(Agent("a", uses=[capability.with_presets(a=True, z=False)]))
    assert composition.instructions == ("base", "a", "m")
    assert composition.merged.model_settings == {"last": "m"}


@pytest.mark.spec("P2", "C7", "C28")
def test_each_status_contributes_and_says_what_it_should() -> None:
    texts: Any = {"instructions": "Say so.", "tools": [add], "uses": [Capability("needed")]}
    soon, gone = Capability("soon", status="coming_soon", **texts), Capability("gone", status="retired", **texts)
    available, old = Capability("there", tools=[add]), Capability("old", status="deprecated", tools=[add])
    composition = compose(Agent("a", uses=[soon, old, Capability("user", uses=[gone]), available]))
    assert [capability.name for capability in composition.capabilities] == ["old", "user", "there"]
    assert composition.notices == (
        "capability 'soon' is coming soon: it contributes nothing yet",
        "capability 'old' is deprecated: it still contributes, but plan to replace it",
        "capability 'gone' is retired: it no longer contributes anything",
    )
    nothing = compose(Agent("a", uses=[soon, gone]))
    assert (nothing.tools, nothing.system_text) == ({}, "")
    assert nothing.static_hash == compose(Agent("a")).static_hash
