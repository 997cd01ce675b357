from __future__ import annotations

import pytest

from capset import Agent, Capability, Policy, Request, compose, tool
from capset.errors import DefinitionError, PolicyConflict, ToolNameConflict


def gate(request: Request) -> bool:
    return True


mine, theirs = Policy("gate", gate), Policy("gate", gate)


@tool(policies=[mine])
def add(a: int) -> int:
    """Add."""
    return a


@tool(name="add")
def another_add(a: int) -> int:
    """Add."""
    return a


@tool(policies=[theirs])
def subtract(a: int) -> int:
    """Subtract."""
    return a


@tool(policies=[mine])
def multiply(a: int) -> int:
    """Multiply."""
    return a


@pytest.mark.spec("C15")
def test_tools_stand_under_their_names_in_order_with_who_brought_them() -> None:
    one, two = Capability("one", tools=[multiply, add]), Capability("two", tools=[add])
    tools = compose(Agent("a", uses=[one, two])).tools
    assert list(tools) == ["multiply", "add"]
    assert (tools["add"].tool, tools["add"].capability) == (add, one)
    assert (tools["add"].name, tools["add"].qualified) == ("add", "one.add")


@pytest.mark.spec("C15")
def test_two_tools_of_one_name_are_a_conflict_that_names_both_and_how_to_mend_it() -> None:
    agent = Agent("a", uses=[Capability("one", tools=[add]), Capability("two", tools=[another_add])])
    with pytest.raises(
        ToolNameConflict, match=r"^one\.add and two\.add are two different tools named 'add'$"
    ) as refused:
        compose(agent)
    assert "@tool(name=" in str(refused.value.hint)
    assert isinstance(refused.value, DefinitionError)


@pytest.mark.spec("C15", "P2")
def test_what_contributes_nothing_conflicts_with_nothing() -> None:
    gone = Capability("one", status="retired", tools=[add])
    soon = Capability("three", status="coming_soon", tools=[subtract])
    tools = compose(Agent("a", uses=[gone, Capability("two", tools=[another_add]), soon])).tools
    assert {name: one.tool for name, one in tools.items()} == {"add": another_add}


@pytest.mark.spec("C16")
@pytest.mark.parametrize("apart", [True, False])
def test_two_policies_of_one_id_are_a_conflict_that_names_both(apart: bool) -> None:
    one = Capability("one", tools=[multiply, add] if apart else [multiply, add, subtract])
    two = Capability("two", tools=[subtract] if apart else [])
    bearer = "two.subtract" if apart else "one.subtract"
    with pytest.raises(PolicyConflict) as refused:
        compose(Agent("a", uses=[one, two]))
    assert str(refused.value) == f"one.multiply and {bearer} carry two different policies with the id 'gate'"
    assert refused.value.hint


@pytest.mark.spec("C16")
def test_one_policy_may_stand_on_many_tools() -> None:
    composition = compose(Agent("a", uses=[Capability("one", tools=[add]), Capability("two", tools=[multiply])]))
    assert {policy for one in composition.tools.values() for policy in one.tool.policies} == {mine}
