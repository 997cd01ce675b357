"""Blocks in blocks: each composed once, and to a bounded depth (spec 1, C11, C20, C39)."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, DefinitionError, Preset, Resource, compose, tool
from capset.definitions.blocks import Block
from capset.errors import KindError
from capset.flows import Flow, Generator, Handler, Router, Sequencer, as_tool

NOTES = Resource("notes", list[str], scope="session", default=list)


class Mood(BaseModel):
    mood: str = "calm"


class Steps(BaseModel):
    done: int = 0


@tool
def add(a: int) -> int:
    """Add."""
    return a


def nothing() -> None: ...


def is_set(value: object) -> bool:
    return bool(value)


def leaf(number: int) -> Handler:
    return Handler(f"leaf{number}", nothing, resources=[Resource(f"r{number}", int, scope="session", default=0)])


@pytest.mark.spec("C20")
def test_data_comes_up_through_every_kind_of_step_and_nothing_else_does() -> None:
    kit = Capability(
        "kit",
        tools=[add],
        context=["Shown."],
        instructions="Do.",
        resources=[NOTES],
        state={"user": Mood},
        files={"/a": "x"},
    )
    user = Generator("user", uses=[kit])
    router = Router("routing", choose=lambda value: "yes", routes={"yes": user, "no": leaf(1)})
    inner = Sequencer("inner").then(router).tap(leaf(2)).parallel(leaf(3), leaf(4)).when(is_set, leaf(5), leaf(6))
    asking = Generator("asking", tools=[as_tool(leaf(7), name="seven", description="Seven.")])
    composition = compose(Flow("main", Sequencer("outer").then(inner).then(asking)))
    assert set(composition.data.resources) == {
        ("session", "notes"),
        *(("session", f"r{number}") for number in range(1, 8)),
    }
    assert list(composition.data.states) == ["user"]
    for composed, block in (
        (composition, "main"),
        (composition.children[composition.block.children["outer"]], "outer"),
    ):
        assert composed.block.name == block
        assert (
            dict(composed.tools),
            composed.instructions,
            composed.context,
            dict(composed.mounts),
            composed.capabilities,
        ) == (
            {},
            (),
            (),
            {},
            (),
        )
    of_user = compose(user)
    assert (list(of_user.tools), of_user.instructions, len(of_user.context), list(of_user.mounts)) == (
        ["add"],
        ("Do.",),
        1,
        ["/a"],
    )


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
    inner = Capability("inner", presets={"steps": Preset(sequencer_state=Steps)})
    agent = Agent("a", uses=[Capability("outer", uses=[inner])])
    with pytest.raises(KindError) as refused:
        compose(agent)
    assert refused.value.message == (
        "capability 'inner', preset 'steps' (a → outer → inner) declares sequencer_state, "
        "which only a sequencer can have; 'a' is a generator"
    )
    assert refused.value.hint == "use inner.with_presets(steps=False)"
    compose(Agent("a", uses=[Capability("outer", uses=[inner]), inner.with_presets(steps=False)]))
