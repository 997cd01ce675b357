from __future__ import annotations

import copy
import dataclasses
import gc
import weakref
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, DefinitionError, Policy, Principal, Tool, compose, evaluate, policy, tool
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
    for bare in (tool(save), tool()(save)):
        assert (bare.name, bare.description, bare.effect, bare.timeout) == ("save", "Save.", "write", None)
        assert (bare.permissions, bare.policies, bare.handler) == (frozenset(), (), save)
        assert (bare.has_side_effects, bare.parameters) == (True, ("a", "b"))


@pytest.mark.spec("G5")
def test_only_reading_has_no_side_effects() -> None:
    effects = ("read", "write", "external", "destructive")
    assert [tool(effect=effect)(save).has_side_effects for effect in effects] == [False, True, True, True]


@pytest.mark.spec("G5")
@pytest.mark.parametrize(
    ("option", "problem", "wrongs"),
    [
        ("effect", "must be one of", ["", "READ", "delete", None, True, ["read"]]),
        ("timeout", "must be a positive number of seconds", [0, -1, -0.0, float("nan"), True, "5", [1]]),
        ("examples", "must be a list", [{"a": 1}]),
        ("instructions", "must be text", [[1]]),
        ("version", "must be text", [2]),
    ],
)
def test_an_option_of_another_type_is_refused(option: str, problem: str, wrongs: list[Any]) -> None:
    for wrong in wrongs:
        with pytest.raises(DefinitionError, match=f"tool 'save': {option} {problem}"):
            tool(**{option: wrong})(save)


@pytest.mark.spec("G7")
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
    tool(name="store")(save)
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
            assert not isinstance(getattr(definition, name), list | dict | set), name
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


class Note(BaseModel):
    text: str
    tags: list[str] = []


def write(note: Note, count: int = 1) -> int:
    """Write a note."""
    return count


def make_writer(**options: Any) -> Tool[..., Any]:
    return tool(**options)(write)


@pytest.mark.spec("F3")
def test_instructions_are_trimmed_and_examples_kept() -> None:
    examples = [{"note": {"text": "ä", "tags": ["x"]}}, {"note": {"text": ""}, "count": 2**70}]
    definition = make_writer(instructions=[" Read first. ", "", "Be brief."], examples=examples)
    assert definition.instructions == ("Read first.", "Be brief.")
    assert [dict(example) for example in definition.examples] == examples


@pytest.mark.spec("F3")
def test_examples_are_the_tools_own() -> None:
    examples = [{"note": {"text": "a", "tags": ["x"]}}]
    definition = make_writer(examples=examples)
    examples[0]["note"]["tags"] = ["changed"]
    examples.append({"note": {"text": "b"}})
    assert [dict(example) for example in definition.examples] == [{"note": {"text": "a", "tags": ["x"]}}]
    with pytest.raises(TypeError):
        definition.examples[0]["note"] = {}  # pyright: ignore[reportIndexIssue]


@pytest.mark.spec("F3", "C39")
@pytest.mark.parametrize(
    ("message", "examples"),
    [
        (" does not fit its schema: note: Field required", [{}]),
        (" does not fit its schema: note.text:", [{"note": {"text": 5}}]),
        (" does not fit its schema: count:", [{"note": {"text": "a"}, "count": "1"}]),
        (" does not fit its schema: more:", [{"note": {"text": "a"}, "more": 1}]),
        (" does not fit its schema: note.more:", [{"note": {"text": "a", "more": 1}}]),
        (" is not JSON data", [{"note": Note(text="a")}, {"note": {"text": "a"}, "count": float("nan")}]),
        ("", [{"note": {"text": "\ud800"}}]),
        (" must be a mapping", [[("note", {"text": "a"})], "note", None]),
    ],
)
def test_an_example_that_a_call_would_refuse_is_refused_by_its_number(message: str, examples: list[Any]) -> None:
    for example in examples:
        with pytest.raises(DefinitionError, match=f"tool 'write': its example 2{message}"):
            make_writer(examples=[{"note": {"text": "fine"}}, example])
