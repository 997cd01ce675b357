from __future__ import annotations

import asyncio

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
    sequencer = Sequencer(name, sequencer_state=Steps)
    for block in blocks:
        sequencer = sequencer.then(block)
    return sequencer


@pytest.mark.spec("C38")
async def test_a_target_is_the_state_of_the_sequencer_around() -> None:
    assert await run(counting("s", step("a"), step("b"))) == ["a", "b"]


@pytest.mark.spec("C38")
async def test_it_reaches_through_every_level() -> None:
    inner = counting("inner", step("b"), Sequencer("innermost").then(step("c")))
    assert await run(counting("s", step("a"), inner)) == ["a", "b", "c"]


@pytest.mark.spec("C38")
async def test_a_name_that_is_nowhere_is_none() -> None:
    assert await run(counting("s", step("a", target="elsewhere"))) is None
    assert await run(step("a")) is None


@pytest.mark.spec("C38")
async def test_a_name_without_state_is_none() -> None:
    assert await run(Sequencer("s").then(step("a"))) is None


@pytest.mark.spec("C38")
async def test_an_earlier_sibling_is_found_and_a_later_one_is_not() -> None:
    assert await run(Sequencer("root").then(counting("s", step("a"))).then(step("b"))) == ["a", "b"]
    assert await run(Sequencer("root").then(step("b")).then(counting("s", step("a")))) == ["a"]


@pytest.mark.spec("C38")
async def test_an_earlier_sibling_of_what_is_around_is_found_but_nothing_inside_it() -> None:
    earlier = counting("s", step("a"))
    assert await run(Sequencer("root").then(earlier).then(Sequencer("later").then(step("b")))) == ["a", "b"]
    hidden = Sequencer("outer").then(earlier)
    assert await run(Sequencer("root").then(hidden).then(step("b"))) is None


@pytest.mark.spec("C38")
async def test_the_nearest_of_that_name_is_meant() -> None:
    inner = Sequencer("middle").then(counting("s", step("b")))
    assert await run(counting("s", step("a"), inner)) == ["b"]


@pytest.mark.spec("C38")
@pytest.mark.parametrize("first", [0, 0.02])
async def test_a_parallel_branch_is_no_earlier_sibling_whoever_is_faster(first: float) -> None:
    @handler(name="pause")
    async def pause(value: object) -> None:
        await asyncio.sleep(0.02 - first)

    @handler(name="other_pause")
    async def other_pause(value: object) -> None:
        await asyncio.sleep(first)

    branches = Sequencer("root").parallel(
        counting("s", pause, step("a")), look=Sequencer("looking").then(other_pause).then(step("b"))
    )
    assert await run(branches) == {"s": ["a"], "look": None}
    assert await run(branches.then(step("c"))) == ["a", "c"]


@pytest.mark.spec("C38")
async def test_parallel_branches_share_what_is_around_and_lose_no_write() -> None:
    branches = counting("s").parallel(*(step(f"b{number}") for number in range(20))).then(step("last"))
    assert sorted(await run(branches)) == sorted([*(f"b{number}" for number in range(20)), "last"])


@pytest.mark.spec("C38")
async def test_a_sequencers_own_conditions_see_its_state() -> None:
    async def enough(ctx: Context, value: object) -> bool:
        state = ctx.targets["s"]
        assert state is not None
        return len((await state.get()).told) > 1

    def make_sequencer(*names: str) -> Sequencer:
        sequencer = Sequencer("s", sequencer_state=Steps, targets={"s": Steps})
        for name in names:
            sequencer = sequencer.tap(step(name))
        return sequencer.when(enough, step("more"))

    assert await run(make_sequencer("a"), "as it was") == "as it was"
    assert await run(make_sequencer("a", "b"), "as it was") == ["a", "b", "more"]


@pytest.mark.spec("C38")
async def test_the_state_lives_for_one_run(store: str) -> None:
    async with opened(counting("s", step("a"), step("b")), store=store) as session:
        assert [await session.run(), await session.run()] == [["a", "b"], ["a", "b"]]


@pytest.mark.spec("C38")
async def test_a_block_that_runs_twice_starts_anew_and_the_last_run_is_found() -> None:
    @tool(effect="read")
    async def look(ctx: Context) -> list[str] | None:
        """Look at what the sequencer left."""
        state = ctx.targets["s"]
        return None if state is None else (await state.get()).told

    inside = as_tool(counting("s", step("a"), step("b")), description="Count.")
    block = Generator("g", tools=[inside, look], targets={"s": Steps})
    moves = [Call("look"), *[Call("s", input=None)] * 2, Call("look"), Say("done")]
    runner = ScriptedRunner({"g": moves})
    await run(block, runner=runner)
    assert [result.data for result in runner.seen[-1].results] == [None, ["a", "b"], ["a", "b"], ["a", "b"]]


@pytest.mark.spec("C38")
async def test_of_two_earlier_runs_of_one_block_the_later_is_meant() -> None:
    @handler(targets={"s": Steps})
    async def note(ctx: Context, word: str) -> None:
        state = ctx.targets["s"]
        assert state is not None
        await state.push(word, field="told")

    @tool(effect="read")
    async def look(ctx: Context) -> list[str] | None:
        """Look at what the sequencer left."""
        state = ctx.targets["s"]
        return None if state is None else (await state.get()).told

    inside = as_tool(Sequencer("s", input=str, sequencer_state=Steps).then(note), description="Note.")
    moves = [Call("s", input="first"), Call("look"), Call("s", input="last"), Call("look"), Say("done")]
    runner = ScriptedRunner({"g": moves})
    await run(Generator("g", tools=[inside, look], targets={"s": Steps}), runner=runner)
    assert [result.data for result in runner.seen[-1].results] == [None, ["first"], None, ["last"]]


@pytest.mark.spec("C38", "C1")
async def test_a_capability_may_bring_the_state_and_the_target() -> None:
    bringing = Capability("bringing", sequencer_state=Steps)
    asking = Capability("asking", targets={"s": Steps})

    @handler(uses=[asking])
    async def count(ctx: Context, value: object) -> int:
        state = ctx.targets["s"]
        return 0 if state is None else (await state.increment("done")).done

    assert await run(Sequencer("s", uses=[bringing]).then(count)) == 1


@pytest.mark.spec("C12")
def test_two_models_for_one_target_are_a_conflict() -> None:
    asking = Capability("asking", targets={"s": Other})
    with pytest.raises(TargetConflict, match="two different models for the target 's'"):
        compose(Handler("h", _nothing, targets={"s": Steps}, uses=[asking]))


def _nothing() -> None: ...
