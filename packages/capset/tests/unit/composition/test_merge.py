from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Policy, Preset, Request, Resource, compose, tool
from capset.definitions.blocks import Block
from capset.errors import DefinitionError, PolicyConflict, ToolNameConflict
from capset.flows import Handler, Sequencer


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
    first, two = Capability("one", tools=[multiply, add]), Capability("two", tools=[add])
    tools = compose(Agent("a", uses=[first, two])).tools
    assert list(tools) == ["multiply", "add"]
    assert (tools["add"].tool, tools["add"].source.capability) == (add, "one")
    assert (tools["add"].name, tools["add"].qualified) == ("add", "one.add")


@pytest.mark.spec("C15")
def test_two_tools_of_one_name_are_a_conflict_that_names_both_and_how_to_mend_it() -> None:
    agent = Agent("a", uses=[Capability("one", tools=[add]), Capability("two", tools=[another_add])])
    with pytest.raises(
        ToolNameConflict,
        match=r"^capability 'one' \(a → one\) and capability 'two' \(a → two\) bring two different tools named 'add'$",
    ) as refused:
        compose(agent)
    assert refused.value.hint == "rename one in uses: two.with_names(prefix='…'), or rename={'add': '…'}"
    assert isinstance(refused.value, DefinitionError)


@pytest.mark.spec("C15", "P2")
def test_what_contributes_nothing_conflicts_with_nothing() -> None:
    gone = Capability("one", status="retired", tools=[add])
    soon = Capability("three", status="coming_soon", tools=[subtract])
    tools = compose(Agent("a", uses=[gone, Capability("two", tools=[another_add]), soon])).tools
    assert {name: installed.tool for name, installed in tools.items()} == {"add": another_add}


@pytest.mark.spec("C16")
@pytest.mark.parametrize("apart", [True, False])
def test_two_policies_of_one_id_are_a_conflict_that_names_both(apart: bool) -> None:
    first = Capability("one", tools=[multiply, add] if apart else [multiply, add, subtract])
    two = Capability("two", tools=[subtract] if apart else [])
    bearer = "capability 'two' (a → two)" if apart else "capability 'one' (a → one)"
    with pytest.raises(PolicyConflict) as refused:
        compose(Agent("a", uses=[first, two]))
    assert (
        str(refused.value) == f"capability 'one' (a → one) and {bearer} have two different policies with the id 'gate'"
    )
    assert refused.value.hint


@pytest.mark.spec("C16")
def test_one_policy_may_stand_on_many_tools() -> None:
    composition = compose(Agent("a", uses=[Capability("one", tools=[add]), Capability("two", tools=[multiply])]))
    assert {policy for installed in composition.tools.values() for policy in installed.tool.policies} == {mine}


class Numbered(BaseModel):
    step: int = 0


class Worded(BaseModel):
    step: str = ""


def agent(*uses: Capability) -> Block:
    return Agent("a", uses=uses)


def sequencer(*uses: Capability) -> Block:
    return Sequencer("a", uses=uses)


@pytest.mark.spec("C2")
@pytest.mark.parametrize(
    ("make", "surface", "value", "other", "field"),
    [
        (agent, "tools", [add], [another_add], "tools named 'add'"),
        (agent, "tools", [multiply], [subtract], "policies with the id 'gate'"),
        (agent, "resources", [Resource("r", int, scope="user")], [Resource("r", int, scope="user")], "resources named"),
        (agent, "state", {"org": Numbered}, {"org": Worded}, "field 'step' of different types in the org state"),
        (sequencer, "sequencer_state", Numbered, Worded, "field 'step' of different types in the sequencer state"),
        (agent, "targets", {"t": Numbered}, {"t": Worded}, "models for the target 't'"),
        (agent, "files", {"/a": "1"}, {"/a": "2"}, "contents for the file '/a'"),
        (agent, "files", {"/a": "1"}, {"/a/b": "2"}, "'/a/b' inside it"),
        (agent, "context", [{"mood": "good"}], [{"system": "x"}], "context of"),
    ],
)
def test_every_error_of_the_merge_names_capability_preset_and_field(
    make: Any, surface: str, value: Any, other: Any, field: str
) -> None:
    first = Capability("first", presets={"full": Preset(**{surface: value})})
    second = Capability("second", presets={"rich": Preset(**{surface: other})})
    with pytest.raises(DefinitionError) as refused:
        compose(make(first, second))
    assert field in refused.value.message
    assert "capability 'second', preset 'rich' (a → second)" in refused.value.message
    assert surface == "context" or "capability 'first', preset 'full' (a → first)" in refused.value.message


@pytest.mark.spec("C2", "C38")
@pytest.mark.parametrize("surfaces", [{"tools": []}, {"context": []}, {"sequencer_state": Numbered}])
def test_the_kind_check_names_them_too_and_the_kind(surfaces: dict[str, Any]) -> None:
    (field,) = surfaces
    kit = Capability("kit", presets={"full": Preset(**surfaces)})
    with pytest.raises(DefinitionError) as refused:
        Handler("h", _nothing, uses=[kit])
    needed = "sequencer" if field == "sequencer_state" else "generator"
    assert refused.value.message == (
        f"capability 'kit', preset 'full' (h → kit) declares {field}, which only a {needed} can have; 'h' is a handler"
    )
    assert refused.value.hint == "use kit.with_presets(full=False)"
    Handler("h", _nothing, uses=[kit.with_presets(full=False)])


def _nothing() -> None: ...
