from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Capability, Context, compose, tool
from capset.definitions.blocks import Block
from capset.errors import TargetConflict
from capset.flows import Generator, Handler, Sequencer, as_tool, handler
from capset_testing import Call, Say, ScriptedRunner
from tests.helpers.flows.support import opened, run
from tests.virtual_time import anyio_backend

__all__ = ["anyio_backend"]

pytestmark = pytest.mark.spec("C38")


class Steps(BaseModel):
    done: int = 0
    told: list[str] = []


class Other(BaseModel):
    done: str = ""


def step(name: str, target: str = "s") -> Handler:
    """Return a handler that counts itself in a sequencer's state, and gives what is there, or ``None``."""

    async def function(ctx: Context, value: object) -> list[str] | None:
        state = ctx.targets[target]
        return None if state is None else (await state.push(name, field="told")).told

    return Handler(name, function, targets={target: Steps})


def counting(name: str, *blocks: Block) -> Sequencer:
    return after(Sequencer(name, sequencer_state=Steps), *blocks)


def after(sequencer: Sequencer, *blocks: Block) -> Sequencer:
    for block in blocks:
        sequencer = sequencer.then(block)
    return sequencer


ROOT, EARLIER, A, B, C = Sequencer("root"), counting("s", step("a")), step("a"), step("b"), step("c")


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (counting("s", A, B), ["a", "b"]),
        (counting("s", A, counting("inner", B, Sequencer("innermost").then(C))), ["a", "b", "c"]),
        (counting("s", step("a", target="elsewhere")), None),
        (A, None),
        (Sequencer("s").then(A), None),  # it has no state
        (after(ROOT, EARLIER, B), ["a", "b"]),
        (after(ROOT, B, EARLIER), ["a"]),  # a later sibling is not found
        (after(ROOT, EARLIER, Sequencer("later").then(B)), ["a", "b"]),
        (after(ROOT, Sequencer("outer").then(EARLIER), B), None),  # nothing inside an earlier sibling is
        (counting("s", A, Sequencer("middle").then(counting("s", B))), ["b"]),  # the nearest of that name is meant
    ],
)
async def test_a_target_is_the_nearest_sequencers_around_or_that_of_an_earlier_sibling(
    block: Block, expected: list[str] | None
) -> None:
    assert await run(block) == expected


@pytest.mark.parametrize("first", [0, 0.02])
async def test_a_parallel_branch_is_no_earlier_sibling_whoever_is_faster(first: float) -> None:
    def pause(name: str, seconds: float) -> Handler:
        async def function(value: object) -> None:
            await asyncio.sleep(seconds)

        return Handler(name, function)

    looking = after(Sequencer("looking"), pause("other_pause", first), B)
    branches = ROOT.parallel(counting("s", pause("pause", 0.02 - first), A), look=looking)
    assert await run(branches) == {"s": ["a"], "look": None}
    assert await run(branches.then(C)) == ["a", "c"]


async def test_parallel_branches_share_what_is_around_and_lose_no_write() -> None:
    names = [f"b{number}" for number in range(20)]
    assert sorted(await run(counting("s").parallel(*map(step, names)).then(step("last")))) == sorted([*names, "last"])


async def test_a_sequencers_own_conditions_see_its_state() -> None:
    async def enough(ctx: Context, value: object) -> bool:
        state = ctx.targets["s"]
        assert state is not None
        return len((await state.get()).told) > 1

    watching = Sequencer("s", sequencer_state=Steps, targets={"s": Steps})
    for sequencer, expected in ((watching.tap(A), "as it was"), (watching.tap(A).tap(B), ["a", "b", "more"])):
        assert await run(sequencer.when(enough, step("more")), "as it was") == expected


async def test_the_state_lives_for_one_run(store: str) -> None:
    async with opened(counting("s", A, B), store=store) as session:
        assert [await session.run(), await session.run()] == [["a", "b"], ["a", "b"]]


@tool(effect="read")
async def look(ctx: Context) -> list[str] | None:
    """Look at what the sequencer left."""
    state = ctx.targets["s"]
    return None if state is None else (await state.get()).told


async def results_of(inside: Sequencer, *moves: Call) -> list[Any]:
    """Return what calls give in a generator that has a sequencer as a tool."""
    runner = ScriptedRunner({"g": [*moves, Say("done")]})
    block = Generator("g", tools=[as_tool(inside, description="Count."), look], targets={"s": Steps})
    await run(block, runner=runner)
    return [result.data for result in runner.steps[-1].results]


async def test_a_block_that_runs_twice_starts_anew_and_the_last_run_is_found() -> None:
    results = await results_of(counting("s", A, B), Call("look"), *[Call("s", input=None)] * 2, Call("look"))
    assert results == [None, ["a", "b"], ["a", "b"], ["a", "b"]]


async def test_of_two_earlier_runs_of_one_block_the_later_is_meant() -> None:
    @handler(targets={"s": Steps})
    async def note(ctx: Context, word: str) -> None:
        state = ctx.targets["s"]
        assert state is not None
        await state.push(word, field="told")

    inside = Sequencer("s", input=str, sequencer_state=Steps).then(note)
    moves = (Call("s", input="first"), Call("look"), Call("s", input="last"), Call("look"))
    assert await results_of(inside, *moves) == [None, ["first"], None, ["last"]]


@pytest.mark.spec("C1")
async def test_a_capability_may_bring_the_state_and_the_target() -> None:
    @handler(uses=[Capability("asking", targets={"s": Steps})])
    async def count(ctx: Context, value: object) -> int:
        state = ctx.targets["s"]
        return 0 if state is None else (await state.increment("done")).done

    assert await run(Sequencer("s", uses=[Capability("bringing", sequencer_state=Steps)]).then(count)) == 1


@pytest.mark.spec("C12")
def test_two_models_for_one_target_are_a_conflict() -> None:
    asking = Capability("asking", targets={"s": Other})
    with pytest.raises(TargetConflict, match="two different models for the target 's'"):
        compose(Sequencer("s", targets={"s": Steps}, uses=[asking]))
