from __future__ import annotations

import copy
import dataclasses
import gc
import weakref
from typing import Any

import pytest

from capset import (
    Agent,
    Capability,
    Context,
    DefinitionError,
    Policy,
    Principal,
    Tool,
    compose,
    evaluate,
    policy,
    tool,
)
from capset.composition.compose import Composition
from capset.definitions.blocks import Block
from capset.errors import PolicyConflict
from capset.evaluation.snapshot.snapshot import Snapshot


def save(a: int, b: str = "x") -> int:
    """Save."""
    return a


@policy
def gate(request: object) -> bool:
    return True


@pytest.mark.spec("G5")
def test_a_bare_tool_writes_and_needs_nothing() -> None:
    made = tool(save)
    assert (made.name, made.description, made.effect, made.timeout) == ("save", "Save.", "write", None)
    assert (made.permissions, made.policies) == (frozenset(), ())
    assert made.handler is save
    assert made.has_side_effects


@pytest.mark.spec("G5")
def test_every_option_is_kept() -> None:
    made = tool(
        name="store", description="Store.", effect="external", permissions=["a:b", "a:b"], policies=[gate], timeout=0.5
    )(save)
    assert (made.name, made.description, made.effect, made.timeout) == ("store", "Store.", "external", 0.5)
    assert (made.permissions, made.policies) == (frozenset({"a:b"}), (gate,))


@pytest.mark.spec("G5")
def test_only_reading_has_no_side_effects() -> None:
    effects = ("read", "write", "external", "destructive")
    assert [tool(effect=effect)(save).has_side_effects for effect in effects] == [False, True, True, True]


@pytest.mark.spec("G5")
@pytest.mark.parametrize("effect", ["", "READ", "delete", None, True, ["read"]])
def test_another_effect_is_refused(effect: Any) -> None:
    with pytest.raises(DefinitionError, match="tool 'save': effect must be one of"):
        tool(effect=effect)(save)


@pytest.mark.parametrize("timeout", [0, -1, -0.0, float("nan"), True, "5", [1]])
def test_a_timeout_is_a_positive_number_of_seconds(timeout: Any) -> None:
    assert tool(timeout=3)(save).timeout == 3
    with pytest.raises(DefinitionError, match="tool 'save': timeout must be a positive number of seconds"):
        tool(timeout=timeout)(save)


@pytest.mark.spec("G7")
@pytest.mark.parametrize("option", ["risk"])
def test_what_is_not_built_yet_is_refused(option: str) -> None:
    with pytest.raises(TypeError, match=option):
        tool(**{option: None})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("wrong", ["gate", save, lambda request: True, None])
def test_a_function_is_not_yet_a_policy(wrong: Any) -> None:
    with pytest.raises(DefinitionError, match=r"tool 'save'.*put @policy on the function"):
        tool(policies=[wrong])(save)


@pytest.mark.spec("C16")
def test_a_policy_stands_once_and_two_of_one_id_are_a_conflict() -> None:
    assert tool(policies=[gate, gate])(save).policies == (gate,)
    with pytest.raises(PolicyConflict, match="tool 'save': two different policies have the id 'gate'"):
        tool(policies=[gate, Policy("gate", lambda request: True)])(save)


def test_decorating_changes_nothing_about_the_function() -> None:
    before = dict(vars(save)), save.__annotations__.copy(), save.__defaults__
    tool(name="one")(save)
    tool(name="two")(save)
    assert (dict(vars(save)), save.__annotations__, save.__defaults__) == before


def test_what_the_caller_gave_may_change_later() -> None:
    permissions, policies, tools, uses, texts = {"a:b"}, [gate], [tool(save)], list[Capability](), ["one"]
    made = tool(name="made", permissions=permissions, policies=policies)(save)
    capability = Capability("c", tools=tools, instructions=texts)
    uses.append(capability)
    agent = Agent("a", uses=uses, instructions=texts)
    principal = Principal("p", permissions=permissions)
    for given in (permissions, policies, tools, uses, texts):
        given.clear()
    assert (made.permissions, made.policies) == ({"a:b"}, (gate,))
    assert (len(capability.part.tools), capability.part.instructions) == (1, ("one",))
    assert [one.base for one in agent.uses if not callable(one)] == [capability]
    assert (agent.instructions, principal.permissions) == (("one",), {"a:b"})


async def everything() -> list[Any]:
    made = tool(policies=[gate])(save)
    capability = Capability("c", tools=[made])
    composition = compose(Agent("a", uses=[capability]))
    snapshot = await evaluate(composition, principal=Principal("p"))
    return [made, gate, capability, composition, composition.block, snapshot]


async def test_definitions_are_told_apart_by_identity() -> None:
    for one, alike in zip(await everything(), await everything(), strict=True):
        assert one is gate or one != alike
        assert one == one  # noqa: PLR0124
        assert {one: 1}[one] == 1


def names_of(one: Any) -> list[str]:
    if dataclasses.is_dataclass(one):
        return [field.name for field in dataclasses.fields(one)]
    return [name for name in Block.__slots__ if not name.startswith("_")]


async def test_definitions_cannot_be_changed() -> None:
    for one in [*await everything(), Principal("p")]:
        for name in names_of(one):
            # CPython raises a TypeError where a frozen class has slots and the name is no field of it.
            with pytest.raises((AttributeError, TypeError)):
                setattr(one, name, None)
        with pytest.raises((AttributeError, TypeError)):
            setattr(one, "something_else", 1)  # noqa: B010
        # A composition remembers what it has worked out of itself.
        assert not hasattr(one, "__dict__") or isinstance(one, Composition | Snapshot)


async def test_definitions_hold_nothing_that_can_be_changed() -> None:
    for one in [*await everything(), Principal("p")]:
        for name in names_of(one):
            value = getattr(one, name)
            assert not isinstance(value, list | dict | set), name
    snapshot = (await everything())[-1]
    for mapping in (snapshot.composition.tools, snapshot.tools, snapshot.verdicts, snapshot.env):
        with pytest.raises(TypeError):
            mapping["x"] = 1


async def test_definitions_may_be_held_weakly() -> None:
    for one in await everything():
        assert weakref.ref(one)() is one
    passing = tool(save)
    reference = weakref.ref(passing)
    compose(Agent("a", uses=[Capability("c", tools=[passing])]))
    del passing
    gc.collect()
    assert reference() is None, "nothing keeps a definition that nobody holds"


def test_a_principal_is_equal_by_value() -> None:
    one = Principal("p", permissions=["a:b", "c:d"], kind="agent", org="o")
    assert one == copy.deepcopy(one) == Principal("p", permissions={"c:d", "a:b"}, kind="agent", org="o")
    assert hash(one) == hash(copy.deepcopy(one))
    assert one != Principal("p", permissions=["a:b"], kind="agent", org="o")


def test_how_they_look() -> None:
    made: Tool[..., Any] = tool(save)
    assert repr(made) == "Tool('save', effect='write')"
    assert repr(Capability("c", tools=[made])) == "Capability('c')"
    assert repr(Agent("a")) == "Agent('a')"


def leading(ctx: Context, a: int) -> int:
    """Lead."""
    return a


def test_the_decorator_can_be_used_bare_and_called() -> None:
    assert tool(leading).parameters == tool()(leading).parameters == ("a",)
