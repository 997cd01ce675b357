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
    definition = tool(save)
    assert (definition.name, definition.description, definition.effect, definition.timeout) == (
        "save",
        "Save.",
        "write",
        None,
    )
    assert (definition.permissions, definition.policies) == (frozenset(), ())
    assert definition.handler is save
    assert definition.has_side_effects


@pytest.mark.spec("G5")
def test_every_option_is_kept() -> None:
    definition = tool(
        name="store", description="Store.", effect="external", permissions=["a:b", "a:b"], policies=[gate], timeout=0.5
    )(save)
    assert (definition.name, definition.description, definition.effect, definition.timeout) == (
        "store",
        "Store.",
        "external",
        0.5,
    )
    assert (definition.permissions, definition.policies) == (frozenset({"a:b"}), (gate,))


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
    definition = tool(name="made", permissions=permissions, policies=policies)(save)
    capability = Capability("c", tools=tools, instructions=texts)
    uses.append(capability)
    agent = Agent("a", uses=uses, instructions=texts)
    principal = Principal("p", permissions=permissions)
    for collection in (permissions, policies, tools, uses, texts):
        collection.clear()
    assert (definition.permissions, definition.policies) == ({"a:b"}, (gate,))
    assert (len(capability.part.tools), capability.part.instructions) == (1, ("one",))
    assert [ref.base for ref in agent.uses if not callable(ref)] == [capability]
    assert (agent.instructions, principal.permissions) == (("one",), {"a:b"})


async def everything() -> list[Any]:
    definition = tool(policies=[gate])(save)
    capability = Capability("c", tools=[definition])
    composition = compose(Agent("a", uses=[capability]))
    snapshot = await evaluate(composition, principal=Principal("p"))
    return [definition, gate, capability, composition, composition.block, snapshot]


async def test_definitions_are_told_apart_by_identity() -> None:
    for definition, alike in zip(await everything(), await everything(), strict=True):
        assert definition is gate or definition != alike
        assert definition == definition  # noqa: PLR0124
        assert {definition: 1}[definition] == 1


def names_of(definition: Any) -> list[str]:
    if dataclasses.is_dataclass(definition):
        return [field.name for field in dataclasses.fields(definition)]
    return [name for name in Block.__slots__ if not name.startswith("_")]


async def test_definitions_cannot_be_changed() -> None:
    for definition in [*await everything(), Principal("p")]:
        for name in names_of(definition):
            # CPython raises a TypeError where a frozen class has slots and the name is no field of it.
            with pytest.raises((AttributeError, TypeError)):
                setattr(definition, name, None)
        with pytest.raises((AttributeError, TypeError)):
            setattr(definition, "something_else", 1)  # noqa: B010
        # A composition remembers what it has worked out of itself.
        assert not hasattr(definition, "__dict__") or isinstance(definition, Composition | Snapshot)


async def test_definitions_hold_nothing_that_can_be_changed() -> None:
    for definition in [*await everything(), Principal("p")]:
        for name in names_of(definition):
            value = getattr(definition, name)
            assert not isinstance(value, list | dict | set), name
    snapshot = (await everything())[-1]
    for mapping in (snapshot.composition.tools, snapshot.tools, snapshot.verdicts, snapshot.env):
        with pytest.raises(TypeError):
            mapping["x"] = 1


async def test_definitions_may_be_held_weakly() -> None:
    for definition in await everything():
        assert weakref.ref(definition)() is definition
    passing = tool(save)
    reference = weakref.ref(passing)
    compose(Agent("a", uses=[Capability("c", tools=[passing])]))
    del passing
    gc.collect()
    assert reference() is None, "nothing keeps a definition that nobody holds"


def test_a_principal_is_equal_by_value() -> None:
    principal = Principal("p", permissions=["a:b", "c:d"], kind="agent", org="o")
    assert principal == copy.deepcopy(principal) == Principal("p", permissions={"c:d", "a:b"}, kind="agent", org="o")
    assert hash(principal) == hash(copy.deepcopy(principal))
    assert principal != Principal("p", permissions=["a:b"], kind="agent", org="o")


def test_how_they_look() -> None:
    definition: Tool[..., Any] = tool(save)
    assert repr(definition) == "Tool('save', effect='write')"
    assert repr(Capability("c", tools=[definition])) == "Capability('c')"
    assert repr(Agent("a")) == "Agent('a')"


def leading(ctx: Context, a: int) -> int:
    """Lead."""
    return a


def test_the_decorator_can_be_used_bare_and_called() -> None:
    assert tool(leading).parameters == tool()(leading).parameters == ("a",)
