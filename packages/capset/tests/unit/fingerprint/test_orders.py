from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

from capset import (
    Agent,
    Capability,
    Policy,
    Preset,
    Principal,
    Resource,
    Snapshot,
    Tool,
    Toolkit,
    compose,
    evaluate,
    tool,
)
from capset.composition.statics import collect_tool_hashes
from capset.definitions.tools.toolkits import DynamicToolkit, Member
from capset.fingerprint.hashes import tool_hash
from capset.schemas.parameters import object_fields
from capset.schemas.schema import schema_of_fields

PERMISSIONS = ["a:read", "b:read", "c:read"]
POLICIES = [
    Policy("yes", lambda request: True),
    Policy("no", lambda request: False),
    Policy("held", lambda request: True, "snapshot"),
    Policy("call", lambda request: False, phase="call"),
]
NOTES = [Resource(name, list[str], scope="session", default=list) for name in ("notes", "drafts", "more")]


class Visits(BaseModel):
    count: int = 0


@dataclass(frozen=True)
class Made:
    """A tool, or a toolkit if it has members, as it is to be made: everything by its number."""

    number: int
    permissions: tuple[int, ...] = ()
    policies: tuple[int, ...] = ()
    members: tuple[Made, ...] | None = None
    examples: tuple[int, ...] = ()
    texts: tuple[str, ...] = field(default=())


NUMBERS = st.sets(st.integers(0, 2), max_size=3).map(tuple)
GATES = st.sets(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def made(draw: st.DrawFn) -> tuple[list[Made], list[Made], list[int], list[int], list[bool]]:
    """Draw the members of a capability and of a preset, their policies, and what else there is."""
    count = iter(range(1000))

    def tool_() -> Made:
        return Made(next(count), draw(NUMBERS), draw(GATES), examples=draw(NUMBERS))

    def kit(depth: int) -> Made:
        members = tuple(draw_member(depth + 1) for _ in range(draw(st.integers(0, 3))))
        texts = tuple(draw(st.lists(st.text(max_size=5), max_size=2)))
        return Made(next(count), (), draw(GATES), members, texts=texts)

    def draw_member(depth: int) -> Made:
        return kit(depth) if depth < 3 and draw(st.booleans()) else tool_()

    base = [draw_member(1) for _ in range(draw(st.integers(1, 4)))]
    preset = [tool_() for _ in range(draw(st.integers(0, 2)))]
    return base, preset, list(draw(GATES)), list(draw(GATES)), draw(st.lists(st.booleans(), min_size=3, max_size=3))


class Maker:
    """Makes an agent, writing everything down in an order of its own."""

    def __init__(self, chance: Random | None) -> None:
        self._chance = chance

    def order(self, values: Any) -> list[Any]:
        entries = list(values)
        if self._chance is not None:
            self._chance.shuffle(entries)
        return entries

    def tool(self, part: Made) -> Tool[..., Any]:
        async def handler(first: int, second: int = 2) -> int: ...
        async def turned(second: int = 2, *, first: int) -> int: ...

        examples = [dict(self.order({"first": number, "second": 1}.items())) for number in part.examples]
        return tool(
            name=f"tool_{part.number}",
            description="Do.",
            permissions=self.order(PERMISSIONS[number] for number in part.permissions),
            policies=self.order(POLICIES[number] for number in part.policies),
            examples=examples,
        )(self.order([handler, turned])[0])

    def member(self, part: Made) -> Member:
        if part.members is None:
            return self.tool(part)
        # A toolkit that speaks keeps its place among others: the model sees the order.
        members = [self.member(inner) for inner in part.members]
        speaks = any(inner.members is not None for inner in part.members)
        policies = self.order(POLICIES[number] for number in part.policies)
        return Toolkit(
            f"kit_{part.number}", members if speaks else self.order(members), policies=policies, instructions=part.texts
        )

    def agent(self, drawn: Any) -> Agent:
        base, preset, capability_gates, root, flags = drawn
        tools = [self.member(part) for part in base]
        speaks = any(part.members is not None for part in base)
        presets = {"more": Preset(tools=self.order(self.member(part) for part in preset))} if preset else {}
        capability = Capability(
            "kit",
            tools=tools if speaks else self.order(tools),
            policies=self.order(POLICIES[number] for number in capability_gates),
            presets=presets,
            default=["more"] if preset and flags[0] else [],
            resources=self.order(NOTES) if flags[1] else [],
            files=dict(self.order({"/a": "a", "/b": "b", "/c": "c"}.items())) if flags[2] else {},
            state=dict(self.order({"session": Visits, "user": Visits}.items())),
        )
        return Agent("agent", uses=[capability], policies=self.order(POLICIES[number] for number in root))


def snapshots(agent: Agent) -> list[Snapshot]:
    composition = compose(agent)
    principals = [Principal("p"), Principal("q", permissions=PERMISSIONS[:2]), Principal("r", permissions=PERMISSIONS)]
    return [asyncio.run(evaluate(composition, principal=principal)) for principal in principals]


@pytest.mark.spec("F3", "F4", "F6", "F8", "F9", "F12", "F13")
@settings(max_examples=40)
@given(made(), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_written_moves_no_hash(drawn: Any, chance: Random) -> None:
    first, second = Maker(None).agent(drawn), Maker(chance).agent(drawn)
    for snapshot, other in zip(snapshots(first), snapshots(second), strict=True):
        for name in ("static_hash", "runtime_hash", "prompt_hash", "tool_refs"):
            assert getattr(snapshot, name) == getattr(other, name)
    tool_hashes = {name: tool_hash(installed.tool) for name, installed in compose(second).tools.items()}
    assert collect_tool_hashes(compose(first)) == collect_tool_hashes(compose(second)) == tool_hashes


@pytest.mark.spec("F5", "F12")
@given(st.permutations(["a", "b", "c"]))
def test_the_order_in_which_tools_are_made_moves_no_hash(names: list[str]) -> None:
    def agent(order: list[str]) -> Agent:
        tools = [Maker(None).tool(Made(ord(name))) for name in order]
        return Agent("agent", tools=[DynamicToolkit("kit", lambda context: tools)])

    (first, *_), (second, *_) = snapshots(agent(["a", "b", "c"])), snapshots(agent(names))
    assert (first.runtime_hash, first.static_hash) == (second.runtime_hash, second.static_hash)


class NumberFirst(TypedDict, total=False):
    value: int | str


class TextFirst(TypedDict, total=False):
    value: str | int


BOUND_NUMBER_FIRST = create_model("BoundNumberFirst", value=(list[int] | str, Field(min_length=2)))
BOUND_TEXT_FIRST = create_model("BoundTextFirst", value=(str | list[int], Field(min_length=2)))


@pytest.mark.spec("F3", "F12")
def test_no_tool_has_its_union_in_the_order_of_a_tool_that_was_made_before() -> None:
    @tool(description="Take either.")
    def text_first(value: str | int, values: list[str | int]) -> None: ...

    @tool(description="Take either.")
    def number_first(value: int | str, values: list[int | str]) -> None: ...

    for definition, types in ((text_first, ["string", "integer"]), (number_first, ["integer", "string"])):
        fields = definition.arguments.json_schema["properties"]
        assert [option["type"] for option in fields["value"]["anyOf"]] == types
        assert [option["type"] for option in fields["values"]["items"]["anyOf"]] == types


@pytest.mark.spec("F3", "F12")
@pytest.mark.parametrize("kinds", [(TextFirst, NumberFirst), (BOUND_TEXT_FIRST, BOUND_NUMBER_FIRST)])
def test_no_type_has_its_union_in_the_order_of_a_type_that_was_read_before(kinds: tuple[Any, Any]) -> None:
    schemas = [schema_of_fields("take", object_fields("take", kind) or {}).json_schema for kind in kinds]
    before, after = (schema["properties"]["value"]["anyOf"] for schema in schemas)
    assert after == before[::-1]
