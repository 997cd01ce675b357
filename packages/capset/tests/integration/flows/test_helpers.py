from __future__ import annotations

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
async def test_siblings_build_their_own_and_share_that_of_an_enclosing_block_that_uses_it() -> None:
    def builds(ctx: Context, value: object) -> bool:
        return [ctx.use(HELPING)] == BUILT

    a, b, inner = asks("a"), asks("b"), Sequencer("inner").then(asks("c"))
    around = Sequencer("s", uses=[HELPING])
    for root, expected, count in (
        (Sequencer("s").parallel(a, b), ({"a": 0, "b": 1}, {"a": 1, "b": 0}), 2),
        (around.when(builds, Sequencer("around").parallel(a, b, c=inner)), ({"a": 0, "b": 0, "c": 0},), 1),
        (around.tap(a).tap(inner).then(b), (0,), 1),
        (around.parallel(a, b, c=inner), ({"a": 0, "b": 0, "c": 0},), 1),
    ):
        BUILT.clear()
        assert await run(root) in expected
        assert len(BUILT) == count


@pytest.mark.spec("C30", "C9")
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


@pytest.mark.spec("C30", "C4")
async def test_the_outermost_block_shares_with_all_that_use_it_alike_and_with_no_others() -> None:
    def size(ctx: Context, value: object) -> tuple[int, int]:
        return ctx.use(HELPING).size, BUILT.index(ctx.use(HELPING))

    def sized(name: str, uses: Any) -> Handler:
        return Handler(name, size, uses=[uses])

    large = HELPING.with_config(Options(size=9))
    inner = Sequencer("inner", uses=[large]).parallel(sized("c", large), sized("d", HELPING), sized("e", HELPING))
    outputs = await run(Sequencer("s", uses=[HELPING]).parallel(sized("a", HELPING), sized("b", large), inner=inner))
    sizes, numbers = zip(*(({**outputs, **outputs["inner"]})[name] for name in "abcde"), strict=True)
    assert sizes == (1, 9, 9, 1, 1)
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


@tool(effect="read")
def ask(ctx: Context) -> int:
    """Ask."""
    return BUILT.index(ctx.use(HELPING))


@tool(effect="read")
async def ask_inside(ctx: Context) -> list[int]:
    """Ask by other calls, and here."""
    return [await ctx.call(ask), await ctx.call(ask), BUILT.index(ctx.use(HELPING))]


@pytest.mark.spec("C30", "C9")
async def test_a_generators_tool_calls_share_one_execution_with_it() -> None:
    def describe_helpers(ctx: Context) -> str:
        return f"helpers {BUILT.index(ctx.use(HELPING))}" if BUILT else "none yet"

    block = Generator("g", uses=[HELPING], tools=[ask, ask_inside], context=[describe_helpers])
    runner = ScriptedRunner({"g": [Call("ask_inside"), Call("ask"), Say("done")] * 2})
    await run(Sequencer("s").tap(block), runner=runner)
    assert [turn.system_text for turn in runner.steps] == ["none yet", "helpers 0", "helpers 0"]
    assert [result.data for result in runner.steps[-1].results] == [[0, 0, 0], 0]
    assert len(BUILT) == 1
    assert BUILT[0].ctx.correlation  # of the generator's run, which goes on after the call


@pytest.mark.spec("C30")
async def test_a_direct_call_is_one_execution_with_the_calls_that_it_makes() -> None:
    async with opened(Generator("g", uses=[HELPING], tools=[ask, ask_inside])) as session:
        assert await session.call(ask_inside) == [0, 0, 0]
        assert await session.call(ask) == 1


@pytest.mark.spec("C33")
async def test_the_request_scope_is_one_store_for_all_that_is_nested(store: str) -> None:
    trail = Resource("trail", list[str], scope="request", default=list)

    class Counter(BaseModel):
        count: int = 0

    data: Any = {"resources": [trail], "state": {"request": Counter}}

    async def leave(ctx: Context, mark: str) -> str:
        await ctx.resource(trail).push(mark)
        await ctx.state(Counter).increment("count")
        return ctx.request.id

    def leaves(name: str) -> Handler:
        async def function(ctx: Context, value: object) -> str:
            return await leave(ctx, name)

        return Handler(name, function, **data)

    async def ends(ctx: Context, value: object) -> tuple[list[str], int, str]:
        return await ctx.resource(trail).get(), ctx.request.state.count, ctx.request.id

    block = Generator("g", tools=[tool(description="Leave a mark.")(leave)], **data)
    inner = Sequencer("inner").then(leaves("b"))
    flow = Sequencer("s").then(leaves("a")).then(inner).tap(block).then(Handler("ends", ends, **data))
    runner = ScriptedRunner({"g": [Call("leave", mark="tool"), Say("done")] * 2})
    async with opened(flow, store=store, runner=runner) as session:
        first, second = await session.run(), await session.run()
    assert first[:2] == second[:2] == (["a", "b", "tool"], 3)
    assert first[2] != second[2]
    assert [turn.results[0].data for turn in runner.steps if turn.results] == [first[2], second[2]]
