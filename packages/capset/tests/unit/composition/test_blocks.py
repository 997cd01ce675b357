"""Blocks in blocks: each composed once, and to a bounded depth (spec 1, C11, C20, C39)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, DefinitionError, Preset, Resource, compose, tool
from capset.definitions.blocks import Block
from capset.errors import KindError
from capset.flows import Flow, Generator, Handler, Router, Sequencer, as_tool


class Mood(BaseModel):
    mood: str = "calm"


@tool
def add(a: int) -> int:
    """Add."""
    return a


def nothing() -> None: ...


def is_set(value: object) -> bool:
    return bool(value)


def resource(name: str) -> Resource[int]:
    return Resource(name, int, scope="session", default=0)


def leaf(number: int) -> Handler:
    return Handler(f"leaf{number}", nothing, resources=[resource(f"r{number}")])


@pytest.mark.spec("C20")
def test_data_comes_up_through_every_kind_of_step_and_nothing_else_does() -> None:
    data: Any = {"resources": [resource("notes")], "state": {"user": Mood}}
    kit = Capability("kit", tools=[add], instructions="Do.", context=["Shown."], files={"/a": "x"}, **data)
    user = Generator("user", uses=[kit])
    router = Router("routing", choose=lambda value: "yes", routes={"yes": user, "no": leaf(1)})
    inner = Sequencer("inner").then(router).tap(leaf(2)).parallel(leaf(3), leaf(4)).when(is_set, leaf(5), leaf(6))
    asking = Generator("asking", tools=[as_tool(leaf(7), name="seven", description="Seven.")])
    composition = compose(Flow("main", Sequencer("outer").then(inner).then(asking)))
    names = ["notes", *(f"r{number}" for number in range(1, 8))]
    assert set(composition.data.resources) == {("session", name) for name in names}
    assert list(composition.data.states) == ["user"]
    outer = composition.children[composition.block.children["outer"]]
    for above in (composition, outer):
        assert not any((above.tools, above.instructions, above.context, above.mounts, above.capabilities))
    of_user = compose(user)
    assert (list(of_user.tools), of_user.instructions) == (["add"], ("Do.",))
    assert (len(of_user.context), list(of_user.mounts)) == (1, ["/a"])


@pytest.mark.spec("C11", "C39")
def test_blocks_that_stand_in_many_places_are_composed_once() -> None:
    block: Block = leaf(0)
    for level in range(24):
        left, right = (Sequencer(f"{side}{level}").then(block) for side in ("left", "right"))
        block = Sequencer(f"both{level}").then(left).then(right)
    composition = compose(block)
    assert list(composition.data.resources) == [("session", "r0")]
    assert [explanation.name for explanation in composition.explain()] == ["session.r0"]
    left, right = (composition.children[child] for child in block.children.values())
    assert next(iter(left.children.values())) is next(iter(right.children.values()))


@pytest.mark.spec("C11", "C39")
def test_blocks_are_nested_to_a_bounded_depth() -> None:
    def nested(levels: int) -> Block:
        block: Block = leaf(0)
        for level in range(levels):
            block = Sequencer(f"s{level}").then(block)
        return block

    assert compose(nested(50)).data.resources
    for levels in (51, 2_000):
        with pytest.raises(DefinitionError, match="has blocks nested more than 50 levels deep: s") as refused:
            compose(nested(levels))
        assert refused.value.hint


@pytest.mark.spec("C38")
def test_an_agent_cannot_have_sequencer_state_by_whatever_way() -> None:
    inner = Capability("inner", presets={"steps": Preset(sequencer_state=Mood)})
    problem = r"'inner', preset 'steps' \(a → outer → inner\) declares sequencer_state, .* 'a' is a generator"
    with pytest.raises(KindError, match=problem):
        compose(Agent("a", uses=[Capability("outer", uses=[inner])]))
    compose(Agent("a", uses=[Capability("outer", uses=[inner]), inner.with_presets(steps=False)]))
