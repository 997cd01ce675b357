from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import Agent, Capability, DefinitionError, compose, tool
from capset.composition.resolve import MAX_CAPABILITIES
from capset.errors import CapabilityConflict


@tool
def add(a: int) -> int:
    """Add."""
    return a


CAPABILITIES = [Capability(f"c{number}") for number in range(6)]


@pytest.mark.spec("C7")
@settings(deadline=None)
@given(st.permutations(CAPABILITIES))
def test_capabilities_stand_in_the_agents_order(order: list[Capability]) -> None:
    assert compose(Agent("a", uses=order)).capabilities == tuple(order)


@pytest.mark.spec("C7", "C8")
@settings(deadline=None)
@given(st.lists(st.sampled_from(CAPABILITIES)))
def test_a_capability_that_is_used_twice_is_installed_once_where_it_came_first(uses: list[Capability]) -> None:
    assert compose(Agent("a", uses=uses)).capabilities == tuple(dict.fromkeys(uses))


@pytest.mark.spec("C8")
def test_two_capabilities_of_one_name_are_a_conflict_even_if_alike() -> None:
    agent = Agent("scribe", uses=[Capability("noop"), Capability("other"), Capability("noop")])
    with pytest.raises(
        CapabilityConflict, match="agent 'scribe' uses two different capabilities named 'noop'"
    ) as refused:
        compose(agent)
    assert refused.value.hint


@pytest.mark.spec("C8")
@pytest.mark.parametrize("status", ["retired", "coming_soon"])
def test_what_contributes_nothing_still_takes_its_name(status: Any) -> None:
    gone = Capability("noop", status=status)
    with pytest.raises(CapabilityConflict):
        compose(Agent("a", uses=[gone, Capability("noop")]))


@pytest.mark.spec("C11")
def test_the_number_of_capabilities_is_bounded() -> None:
    many = [Capability(f"c{number}") for number in range(MAX_CAPABILITIES)]
    assert len(compose(Agent("a", uses=many)).capabilities) == 100
    with pytest.raises(DefinitionError, match="agent 'a' has more than 100 capabilities, one of them by a → one_more"):
        compose(Agent("a", uses=[*many, Capability("one_more")]))


@pytest.mark.spec("P2")
def test_each_status_contributes_and_says_what_it_should() -> None:
    texts: Any = {"instructions": "Say so.", "tools": [add]}
    available, old = Capability("there", **texts), Capability("old", status="deprecated", **texts)
    soon, gone = Capability("soon", status="coming_soon", **texts), Capability("gone", status="retired", **texts)
    composition = compose(Agent("a", uses=[soon, old, gone, available]))
    assert composition.capabilities == (old, available)
    assert composition.notices == (
        "capability 'soon' is coming soon: it contributes nothing yet",
        "capability 'old' is deprecated: it still contributes, but plan to replace it",
        "capability 'gone' is retired: it contributes nothing any more",
    )
    nothing = compose(Agent("a", uses=[soon, gone]))
    assert (nothing.tools, nothing.instructions, nothing.system_text) == ({}, (), "")
    assert nothing.static_hash == compose(Agent("a")).static_hash
