from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capset import Agent, Capability, Hooks, Policy, Preset, Tool, Toolkit, ToolkitContext, compose, tool
from capset.definitions.tools.toolkits import MAX_TOOLKIT_LEVELS, DynamicToolkit, dynamic_toolkit, policies_in, tools_in
from capset.errors import DefinitionError, PolicyConflict, ToolNameConflict


def make(name: str, **options: Any) -> Tool[..., Any]:
    @tool(name=name, **options)
    def handler() -> None:
        """Do."""

    return handler


def nested(levels: int, *inside: Any) -> Toolkit:
    kit = Toolkit("inner", inside)
    for number in range(levels - 1):
        kit = Toolkit(f"level_{number}", [kit])
    return kit


ONE, TWO = make("one"), make("two")


def yes(request: object) -> bool:
    return True


GATE, OTHER = Policy("gate", yes), Policy("other", yes)


@pytest.mark.spec("C1", "F4")
def test_a_toolkit_keeps_its_members_once_and_in_order() -> None:
    inner = Toolkit("inner", [ONE])
    kit = Toolkit("kit", [TWO, inner, ONE, TWO, inner], instructions=[" Be kind. ", ""], policies=[GATE, OTHER, GATE])
    assert (kit.members, kit.instructions, kit.policies) == ((TWO, inner, ONE), ("Be kind.",), (GATE, OTHER))
    assert (kit.levels, inner.levels) == (2, 1)
    assert list(tools_in([kit])) == [TWO, ONE, ONE]
    assert repr(kit) == "Toolkit('kit')"
    empty = Toolkit("kit", instructions="Read before you write.")
    assert (empty.instructions, empty.members, bool(empty.hooks)) == (("Read before you write.",), (), False)


@pytest.mark.spec("F12", "F17")
def test_the_policies_inside_come_after_those_around_them() -> None:
    third, fourth = Policy("third", yes), Policy("fourth", yes)
    kit = Toolkit("kit", [Toolkit("inner", [make("a", policies=[third])], policies=[OTHER])], policies=[GATE])
    assert list(policies_in([kit, make("b", policies=[fourth])])) == [GATE, OTHER, third, fourth]


def test_a_toolkits_name_fits_its_grammar() -> None:
    for name in ("files", "Files:main-2_x", "a" * 64):
        assert Toolkit(name).name == DynamicToolkit(name, lambda context: []).name == name
    wrongs: list[Any] = ["a" * 65, "", "2files", "_files", "a b", "a.b", "ä", None, 5]
    for name in wrongs:
        with pytest.raises(DefinitionError, match="a toolkit's name must match"):
            Toolkit(name)
        with pytest.raises(DefinitionError, match="a dynamic toolkit's name must match"):
            DynamicToolkit(name, lambda context: [])


@pytest.mark.spec("C1")
@pytest.mark.parametrize(
    ("option", "message", "wrongs"),
    [
        ("members", "<function .* is not a Tool; put @tool on the function", [[lambda: 1]]),
        ("members", "tools must be a list", ["one", {ONE}, ONE, None]),
        ("members", ".* is not a Tool", [[Capability("c")]]),
        ("policies", ".* is not a Policy", [[bool]]),
        ("policies", "policies must be a list", [GATE]),
        ("instructions", "instructions must be text", [[5]]),
        ("instructions", "instructions must be a list", [{"a"}]),
        ("hooks", "hooks is Hooks", [{}, [print]]),
    ],
)
def test_what_does_not_belong_into_a_toolkit_is_refused_by_its_name(
    option: str, message: str, wrongs: list[Any]
) -> None:
    for wrong in wrongs:
        with pytest.raises(DefinitionError, match=f"toolkit 'kit': {message}"):
            Toolkit("kit", **{option: wrong})
        if option != "members":
            with pytest.raises(DefinitionError, match=f"dynamic toolkit 'kit': {message}"):
                DynamicToolkit("kit", lambda context: [], **{option: wrong})


@pytest.mark.spec("C12", "C16")
def test_two_things_of_one_name_are_a_conflict_at_every_depth() -> None:
    with pytest.raises(ToolNameConflict, match="toolkit 'kit': two different tools are named 'one'"):
        Toolkit("kit", [ONE, Toolkit("a", [Toolkit("b", [make("one")])])])
    for other in (Toolkit("a"), DynamicToolkit("a", lambda context: [])):
        with pytest.raises(ToolNameConflict, match="two different toolkits are named 'a'"):
            Toolkit("kit", [Toolkit("a"), other])
    with pytest.raises(PolicyConflict, match="toolkit 'kit': two different policies have the id 'gate'"):
        Toolkit("kit", policies=[GATE, Policy("gate", yes)])
    with pytest.raises(PolicyConflict, match="policies with the id 'gate'"):
        compose(Agent("a", tools=[Toolkit("kit", [make("x", policies=[Policy("gate", yes)])], policies=[GATE])]))
    with pytest.raises(ToolNameConflict, match="'one'"):
        compose(Agent("a", tools=[Toolkit("kit", [ONE])], uses=[Capability("c", tools=[make("one")])]))


def test_the_same_object_is_no_conflict_and_neither_is_a_name_at_another_depth() -> None:
    kit = Toolkit("kit", [ONE, Toolkit("kit", [ONE, TWO]), Toolkit("other", [TWO])])
    assert list(compose(Agent("a", tools=[kit, ONE], uses=[Capability("c", tools=[kit])])).tools) == ["one", "two"]


@pytest.mark.spec("F4")
def test_toolkits_nest_only_so_deep() -> None:
    assert nested(MAX_TOOLKIT_LEVELS, ONE).levels == MAX_TOOLKIT_LEVELS
    assert list(compose(Agent("a", tools=[nested(MAX_TOOLKIT_LEVELS, ONE)])).tools) == ["one"]
    with pytest.raises(DefinitionError, match=f"nested more than {MAX_TOOLKIT_LEVELS} levels deep"):
        nested(MAX_TOOLKIT_LEVELS + 1)


def test_toolkits_are_frozen_and_told_apart_by_identity() -> None:
    members = [ONE]
    kit = Toolkit("kit", members)
    members.append(TWO)
    assert kit.members == (ONE,)
    assert kit != Toolkit("kit", [ONE])
    with pytest.raises((FrozenInstanceError, AttributeError)):
        kit.name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises((FrozenInstanceError, AttributeError)):
        DynamicToolkit("d", lambda context: []).make = print  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.spec("C1")
def test_a_toolkit_stands_wherever_a_tool_may() -> None:
    kit = Toolkit("kit", [ONE])
    in_preset = Capability("c", presets={"p": Preset(tools=[kit])}, default=["p"])
    assert list(compose(Agent("a", tools=[kit])).tools) == ["one"]
    assert list(compose(Agent("a", tools=[Toolkit("outer", [kit])])).tools) == ["one"]
    assert list(compose(Agent("a", uses=[Capability("c", tools=[kit])])).tools) == ["one"]
    assert list(compose(Agent("a", uses=[in_preset])).tools) == ["one"]


@given(st.recursive(st.just("tool"), lambda inner: st.lists(inner, max_size=3), max_leaves=8))
def test_tools_are_found_at_every_depth_in_the_order_in_which_they_stand(shape: Any) -> None:
    built: list[Tool[..., Any]] = []

    def build(part: Any) -> Any:
        if isinstance(part, str):
            built.append(make(f"tool_{len(built)}"))
            return built[-1]
        return Toolkit(f"kit_{id(part)}", [build(member) for member in part])

    kit = Toolkit("root", [build(shape)])
    assert list(tools_in([kit])) == built
    assert [installed.tool for installed in compose(Agent("a", tools=[kit])).tools.values()] == built


@pytest.mark.spec("F5")
def test_a_dynamic_toolkit_is_made_of_a_function_under_its_name() -> None:
    @dynamic_toolkit
    def searches(context: ToolkitContext) -> list[Tool[..., Any]]:
        return [ONE]

    hooks = Hooks(on_tool_executed=print)

    @dynamic_toolkit(name="web", instructions="Search first.", policies=[GATE, GATE], hooks=hooks)
    async def other(context: ToolkitContext) -> list[Tool[..., Any]]:
        return [ONE]

    assert (searches.name, searches.instructions, searches.policies) == ("searches", (), ())
    assert not searches.hooks
    assert (other.name, other.instructions, other.policies) == ("web", ("Search first.",), (GATE,))
    assert other.hooks is hooks
    assert repr(other) == "DynamicToolkit('web')"
    assert list(tools_in([other])) == []


@pytest.mark.spec("F5")
@pytest.mark.parametrize("wrong", [lambda: [ONE], lambda first, other: [], lambda *, context: [], 5, [ONE], "kit"])
def test_what_cannot_take_a_context_makes_no_toolkit(wrong: Any) -> None:
    for make_toolkit in (dynamic_toolkit(name="kit"), lambda function: DynamicToolkit("kit", function)):
        with pytest.raises(DefinitionError, match=r"toolkit 'kit' must (take exactly|be a function of) one argument"):
            make_toolkit(wrong)


def test_a_function_without_a_name_that_fits_needs_one() -> None:
    with pytest.raises(DefinitionError, match="a dynamic toolkit's name must match"):
        dynamic_toolkit(lambda context: [])
