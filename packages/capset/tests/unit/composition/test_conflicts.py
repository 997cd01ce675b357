"""Every conflict at once (spec 1, C12; spec 5, P7)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Capability, compose, tool
from capset.composition.conflicts import conflicts_of
from capset.definitions.references import AnyRef
from capset.errors import DefinitionError


def one(name: str, tool_name: str) -> AnyRef:
    @tool(effect="read", name=tool_name)
    async def look() -> str:
        """Look."""
        return name

    return Capability(name, tools=[look]).ref


def agent(refs: Sequence[AnyRef]) -> Agent:
    return Agent("keeper", uses=refs)


@pytest.mark.spec("C12", "P7")
def test_what_can_be_composed_has_none() -> None:
    assert conflicts_of(agent, [one("a", "x"), one("b", "y")]) == ()
    assert conflicts_of(agent, []) == ()


@pytest.mark.spec("C12", "P7")
def test_each_reference_that_does_not_fit_is_told_once() -> None:
    refs = [one("a", "x"), one("b", "y"), one("c", "x"), one("d", "y"), one("e", "z"), one("f", "x")]
    conflicts = conflicts_of(agent, refs)
    assert [conflict.capability for conflict in conflicts] == ["c", "d", "f"]
    messages = [conflict.error.message for conflict in conflicts]
    assert len(messages) == 3
    for message, names in zip(messages, (("'a'", "'c'"), ("'b'", "'d'"), ("'a'", "'f'")), strict=True):
        assert all(name in message for name in names), message


@pytest.mark.spec("P7")
def test_what_is_wrong_with_the_agent_itself_is_all_that_is_told() -> None:
    def broken(refs: Sequence[AnyRef]) -> Agent:
        return Agent("-", uses=refs)

    (only,) = conflicts_of(broken, [one("a", "x"), one("b", "x")])
    assert "name" in only.error.message
    assert only.capability is None


@given(st.lists(st.sampled_from("xyz"), max_size=6))
def test_there_are_conflicts_just_where_it_cannot_be_composed(names: list[str]) -> None:
    refs = [one(f"c{number}", name) for number, name in enumerate(names)]
    conflicts = conflicts_of(agent, refs)
    assert len(conflicts) == len(names) - len(set(names)), "one for every name that is taken"
    if conflicts:
        with pytest.raises(DefinitionError):
            compose(agent(refs))
