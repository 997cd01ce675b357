from __future__ import annotations

import asyncio
import time
from threading import Barrier
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Capability, Context, Resource, tool
from capset.flows import Generator, Handler, Sequencer
from capset_testing import Call, Say, ScriptedRunner
from tests.helpers.flows.support import opened, run


class Options(BaseModel):
    size: int = 1


class Helper:
    """Helpers that can be told apart, and know for whom they were built."""

    def __init__(self, ctx: Context) -> None:
        BUILT.append(self)
        self.ctx = ctx
        self.size = ctx.config(HELPING).size


BUILT: list[Helper] = []
HELPING = Capability("helping", helpers=Helper, config=Options)


@pytest.fixture(autouse=True)
def nothing_is_built() -> None:
    BUILT.clear()


def asks(name: str) -> Handler:
    """Return a handler that gives the number of the helpers that it is given."""

    def function(ctx: Context, value: object) -> int:
        assert ctx.use(HELPING) is ctx.use(HELPING) is ctx.cap.helping
        return BUILT.index(ctx.use(HELPING))

    return Handler(name, function, uses=[HELPING])


@pytest.mark.spec("C30")
async def test_siblings_build_their_own() -> None:
    assert await run(Sequencer("s").parallel(asks("a"), asks("b"))) in ({"a": 0, "b": 1}, {"a": 1, "b": 0})
    assert len(BUILT) == 2


@pytest.mark.spec("C30")
async def test_nested_blocks_inherit_what_is_built_around_them() -> None:
    def build(ctx: Context, value: object) -> bool:
        return [ctx.use(HELPING)] == BUILT

    inner = Sequencer("inner").then(asks("c"))
    root = Sequencer("s", uses=[HELPING]).when(build, Sequencer("around").parallel(asks("a"), asks("b"), c=inner))
    assert await run(root) == {"a": 0, "b": 0, "c": 0}
    assert len(BUILT) == 1


@pytest.mark.spec("C30")
async def test_an_enclosing_block_that_uses_it_shares_it_whatever_ran_before() -> None:
    inner = Sequencer("inner").then(asks("c"))
    in_sequence = Sequencer("s", uses=[HELPING]).tap(asks("a")).tap(inner).then(asks("b"))
    assert await run(in_sequence) == 0
    assert len(BUILT) == 1
    assert await run(Sequencer("s", uses=[HELPING]).parallel(asks("a"), asks("b"), c=inner)) == {"a": 1, "b": 1, "c": 1}
    assert len(BUILT) == 2


@pytest.mark.spec("C30")
async def test_threads_of_parallel_blocks_share_what_takes_long_to_build() -> None:
    built: list[object] = []
    both_ask = Barrier(2)

    def slow(ctx: Context) -> object:
        both_ask.wait(10)
        built.append(object())
        return built[-1]

    capability = Capability("slow", helpers=slow)

    def first(ctx: Context, value: object) -> int:
        return built.index(ctx.use(capability))

    def second(ctx: Context, value: object) -> int:
        both_ask.wait(10)  # the other is building
        return built.index(ctx.use(capability))

    branches = [Handler(function.__name__, function, uses=[capability]) for function in (first, second)]
    assert await run(Sequencer("s", uses=[capability]).parallel(*branches)) == {"first": 0, "second": 0}
    assert len(built) == 1


@pytest.mark.spec("C30")
async def test_the_outermost_block_shares_with_all_that_use_it_alike_and_with_no_others() -> None:
    def size(ctx: Context, value: object) -> tuple[int, int]:
        return ctx.use(HELPING).size, BUILT.index(ctx.use(HELPING))

    large = HELPING.with_config(Options(size=9))

    def sized(name: str, uses: Any) -> Handler:
        return Handler(name, size, uses=[uses])

    inner = Sequencer("inner", uses=[large]).parallel(sized("c", large), sized("d", HELPING), sized("e", HELPING))
    root = Sequencer("s", uses=[HELPING]).parallel(sized("a", HELPING), sized("b", large), inner=inner)
    outputs = await run(root)
    flat = {name: outputs[name] for name in ("a", "b")} | outputs["inner"]
    assert [flat[name][0] for name in "abcde"] == [1, 9, 9, 1, 1]
    numbers = [flat[name][1] for name in "abcde"]
    assert numbers[0] == numbers[3] == numbers[4]
    assert len(set(numbers)) == len(BUILT) == 3  # "b" has one of its own: nothing around it is configured like it


@pytest.mark.spec("C30", "C9")
async def test_what_needs_another_is_built_once_for_a_block_and_its_tools() -> None:
    leaning: Capability[Any] = Capability("leaning", uses=[HELPING], helpers=lambda ctx: ctx.use(HELPING))

    def same(ctx: Context, value: object) -> bool:
        return ctx.use(leaning) is ctx.use(HELPING)

    steps = [Handler(name, same, uses=[leaning]) for name in ("a", "b")]
    assert await run(Sequencer("s", uses=[leaning]).parallel(*steps)) == {"a": True, "b": True}
    assert len(BUILT) == 1


@pytest.mark.spec("C30")
async def test_each_run_builds_anew() -> None:
    async with opened(asks("a")) as session:
        assert [await session.run(), await session.run()] == [0, 1]


@pytest.mark.spec("C30", "C9")
async def test_a_generators_tool_calls_share_one_execution_with_it() -> None:
    @tool(effect="read")
    def ask(ctx: Context) -> int:
        """Ask."""
        return BUILT.index(ctx.use(HELPING))

    @tool(effect="read")
    async def ask_inside(ctx: Context) -> int:
        """Ask by another call."""
        return await ctx.call(ask)

    def describe_helpers(ctx: Context) -> str:
        return f"helpers {BUILT.index(ctx.use(HELPING))}" if BUILT else "none yet"

    block = Generator("g", uses=[HELPING], tools=[ask, ask_inside], context=[describe_helpers])
    runner = ScriptedRunner({"g": [Call("ask_inside"), Call("ask"), Say("done")] * 2})
    await run(Sequencer("s").tap(block), runner=runner)
    assert [turn.system_text for turn in runner.seen] == ["none yet", "helpers 0", "helpers 0"]
    assert [result.data for result in runner.seen[-1].results] == [0, 0]
    assert len(BUILT) == 1
    assert BUILT[0].ctx.correlation  # of the generator's run, which goes on after the call


@pytest.mark.spec("C30")
async def test_a_direct_call_is_one_execution_with_the_calls_that_it_makes() -> None:
    @tool(effect="read")
    def ask(ctx: Context) -> int:
        """Ask."""
        return BUILT.index(ctx.use(HELPING))

    @tool(effect="read")
    async def ask_twice(ctx: Context) -> list[int]:
        """Ask twice, and then here."""
        return [await ctx.call(ask), await ctx.call(ask), BUILT.index(ctx.use(HELPING))]

    async with opened(Generator("g", uses=[HELPING], tools=[ask, ask_twice])) as session:
        assert await session.call(ask_twice) == [0, 0, 0]
        assert await session.call(ask) == 1


@pytest.mark.realtime
@pytest.mark.spec("C9")
async def test_threads_that_ask_at_once_get_the_same() -> None:
    built: list[object] = []

    def slow(ctx: Context) -> object:
        time.sleep(0.02)
        built.append(object())
        return built[-1]

    capability = Capability("slow", helpers=slow)

    @tool(effect="read")
    def ask(ctx: Context) -> int:
        """Ask."""
        return built.index(ctx.use(capability))

    @tool(effect="read")
    async def ask_often(ctx: Context) -> list[int]:
        """Ask from many threads."""
        return list(await asyncio.gather(*(ctx.call(ask) for _ in range(8))))

    async with opened(Generator("g", uses=[capability], tools=[ask, ask_often])) as session:
        assert await session.call(ask_often) == [0] * 8


@pytest.mark.spec("C30", "C4")
async def test_helpers_that_were_configured_otherwise_are_not_inherited() -> None:
    def size(ctx: Context, value: object) -> int:
        return ctx.use(HELPING).size

    large = Handler("large", size, uses=[HELPING.with_config(Options(size=9))])
    root = Sequencer("s", uses=[HELPING]).when(lambda ctx, value: bool(ctx.use(HELPING)), large)
    assert await run(root) == 9


@pytest.mark.spec("C33")
async def test_the_request_scope_is_one_store_for_all_that_is_nested(store: str) -> None:
    trail = Resource("trail", list[str], scope="request", default=list)

    class Counter(BaseModel):
        count: int = 0

    @tool
    async def leave(ctx: Context, mark: str) -> str:
        """Leave a mark."""
        await ctx.resource(trail).push(mark)
        await ctx.state(Counter).increment("count")
        return ctx.request.id

    def leaves(name: str) -> Handler:
        async def function(ctx: Context, value: object) -> str:
            await ctx.resource(trail).push(name)
            await ctx.state(Counter).increment("count")
            return ctx.request.id

        return Handler(name, function, resources=[trail], state={"request": Counter})

    async def ends(ctx: Context, value: object) -> tuple[list[str], int, str]:
        return await ctx.resource(trail).get(), ctx.request.state.count, ctx.request.id

    block = Generator("g", tools=[leave], resources=[trail], state={"request": Counter})
    last = Handler("ends", ends, resources=[trail], state={"request": Counter})
    flow = Sequencer("s").then(leaves("a")).then(Sequencer("inner").then(leaves("b"))).tap(block).then(last)
    runner = ScriptedRunner({"g": [Call("leave", mark="tool"), Say("done")] * 2})
    async with opened(flow, store=store, runner=runner) as session:
        first, second = await session.run(), await session.run()
    assert first[:2] == second[:2] == (["a", "b", "tool"], 3)
    assert first[2] != second[2]
    assert [turn.results[0].data for turn in runner.seen if turn.results] == [first[2], second[2]]
