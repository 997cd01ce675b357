"""Every conflict at once (spec 1, C12; spec 5, P7)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Capability, compose, tool
from capset.composition.conflicts import conflicts_of
from capset.definitions.references import AnyRef
from capset.errors import DefinitionError


def bringing(name: str, tool_name: str) -> AnyRef:
    @tool(effect="read", name=tool_name)
    async def look() -> str:
        """Look."""
        return name

    return Capability(name, tools=[look]).ref


def agent(refs: Sequence[AnyRef]) -> Agent:
    return Agent("keeper", uses=refs)


@pytest.mark.spec("C12", "P7")
def test_each_reference_that_does_not_fit_is_told_once() -> None:
    conflicts = conflicts_of(agent, [bringing(name, of) for name, of in zip("abcdef", "xyxyzx", strict=True)])
    assert [conflict.capability for conflict in conflicts] == ["c", "d", "f"]
    for conflict, (first, other) in zip(conflicts, ("ac", "bd", "af"), strict=True):
        assert re.search(f"'{first}'.*'{other}'", conflict.error.message)


@pytest.mark.spec("P7")
def test_what_is_wrong_with_the_agent_itself_is_all_that_is_told() -> None:
    (conflict,) = conflicts_of(lambda refs: Agent("-", uses=refs), [bringing("a", "x"), bringing("b", "x")])
    assert "name" in conflict.error.message
    assert conflict.capability is None


@pytest.mark.spec("C12", "P7")
@given(st.lists(st.sampled_from("xyz"), max_size=6))
def test_there_are_conflicts_just_where_it_cannot_be_composed(names: list[str]) -> None:
    refs = [bringing(f"c{number}", name) for number, name in enumerate(names)]
    conflicts = conflicts_of(agent, refs)
    assert len(conflicts) == len(names) - len(set(names)), "one for every name that is taken"
    if conflicts:
        with pytest.raises(DefinitionError):
            compose(agent(refs))
