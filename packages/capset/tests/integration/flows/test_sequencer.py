from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Context, DefinitionError
from capset.errors import InternalError, InvalidArguments, InvalidOutput, KindError
from capset.flows import Flow, Generator, Sequencer, handler
from tests.helpers.flows.support import add, run
from tests.virtual_time import anyio_backend

__all__ = ["anyio_backend"]

_NO_BLOCK: Any = run
ONE, TWO, THREE = add("one", 1), add("two", 2), add("three", 3)


def is_set(value: object) -> bool:
    return bool(value)


@handler()
def as_text(value: int) -> str:
    return str(value)


@pytest.mark.spec("C37")
async def test_steps_run_in_order_each_on_what_the_one_before_gave_and_that_of_a_tap_is_dropped() -> None:
    values: list[int] = []

    @handler()
    def double(value: int) -> int:
        values.append(value)
        return 2 * value

    assert await run(Sequencer("s").then(ONE).then(double), 3) == 8
    assert await run(Sequencer("s").then(double).then(ONE), 3) == 7
    assert await run(Sequencer("s").then(ONE).tap(double).then(TWO), 1) == 4
    assert await run(Sequencer("s"), "as it is") == "as it is"
    assert values == [4, 3, 2]


@pytest.mark.spec("C20")
async def test_a_step_more_gives_a_new_sequencer_and_leaves_the_old_one() -> None:
    short = Sequencer("s", description="Counts.").then(ONE)
    for other in (short.then(TWO), short.tap(TWO), short.parallel(TWO), short.when(is_set, TWO)):
        assert (other.name, other.description, list(other.children)) == ("s", "Counts.", ["one", "two"])
    assert (list(short.children), len(short.steps)) == (["one"], 1)
    assert await run(short, 1) == 2
    with pytest.raises(AttributeError, match="frozen"):
        short.steps = ()


@pytest.mark.spec("C37")
async def test_parallel_runs_at_once_on_one_value_and_gives_outputs_by_name() -> None:
    meeting = asyncio.Barrier(2)

    @handler()
    async def left(value: int) -> int:
        await meeting.wait()
        return value

    @handler()
    async def right(value: int) -> str:
        await meeting.wait()
        return str(value)

    assert await run(Sequencer("s").parallel(left, right), 1) == {"left": 1, "right": "1"}
    assert await run(Sequencer("s").parallel(a=left, b=right), 1) == {"a": 1, "b": "1"}
    assert await run(Sequencer("s").parallel(left, text=right), 1) == {"left": 1, "text": "1"}


@pytest.mark.spec("C37")
async def test_the_first_branch_that_fails_cancels_the_others_and_waits_for_them() -> None:
    cleaned: list[str] = []

    @handler()
    async def slow(value: int) -> int:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            cleaned.append("slow")
        return value

    @handler()
    async def fails(value: int) -> int:
        await asyncio.sleep(0)
        raise ValueError(value)

    with pytest.raises(InternalError, match="The block 'fails' failed unexpectedly"):
        await run(Sequencer("s").parallel(slow, fails).then(ONE), 1)
    assert cleaned == ["slow"]


@pytest.mark.spec("C37")
async def test_a_condition_chooses_one_of_two_or_the_value_goes_on_as_it_is() -> None:
    async def is_small(ctx: Context, value: int) -> bool:
        await asyncio.sleep(0)
        return ctx.principal.id == "ada" and value < 5

    for sequencer, small, large in (
        (Sequencer("s").when(is_small, THREE, otherwise=TWO), 4, 12),
        (Sequencer("s").when(lambda value: value < 5, THREE, TWO), 4, 12),
        (Sequencer("s").when(lambda value: value < 5, THREE).then(ONE), 5, 11),
    ):
        assert [await run(sequencer, 1), await run(sequencer, 10)] == [small, large]


async def test_a_condition_that_fails_is_named() -> None:
    def is_odd(value: Any) -> bool:
        return value % 2 == 1

    with pytest.raises(InternalError, match=r"^The condition 'is_odd' of 's' failed: TypeError\.$"):
        await run(Sequencer("s").when(is_odd, ONE), None)


@pytest.mark.spec("C37")
async def test_declared_types_are_checked_at_both_ends() -> None:
    ran: list[object] = []

    @handler()
    def anything(value: object) -> object:
        ran.append(value)
        return value

    sequencer = Sequencer("s", input=int, output=str).then(anything)
    with pytest.raises(InvalidArguments, match="Invalid input for the block 's'"):
        await run(sequencer, "1")
    with pytest.raises(InvalidOutput, match="'s' returned an output"):
        await run(sequencer, 1)
    assert ran == [1]


def test_undeclared_types_are_those_of_the_steps() -> None:
    integer, text = {"type": "integer"}, {"type": "string"}
    by_name = {"type": "object", "properties": {"as_text": text, "one": integer}, "required": ["as_text", "one"]}
    for sequencer, *expected in (
        (Sequencer("s"), None, None),
        (Sequencer("s").then(ONE).then(as_text), integer, text),
        (Sequencer("s").tap(as_text), integer, integer),
        (Sequencer("s").then(ONE).when(is_set, as_text), integer, {"anyOf": [text, integer]}),
        (Sequencer("s").when(is_set, ONE, TWO), None, integer),
        (Sequencer("s").parallel(ONE, as_text), integer, by_name),
        (Sequencer("s").parallel(ONE, Agent("talker")), None, None),
        (Sequencer("s", output=bytes).then(ONE), integer, {"type": "string", "format": "binary"}),
    ):
        assert [schema and schema.json_schema for schema in (sequencer.input, sequencer.output)] == expected


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Sequencer("s").then(ONE).then(ONE), "two of its blocks are named 'one'"),
        (lambda: Sequencer("s").then(ONE).tap(add("one", 5)), "two of its blocks are named 'one'"),
        (lambda: Sequencer("s").parallel(a=ONE, b=ONE), "two of its blocks are named 'one'"),
        (lambda: Sequencer("s").when(is_set, ONE, otherwise=add("one", 5)), "two of its blocks are named 'one'"),
        (lambda: Sequencer("s").parallel(), "parallel needs at least one block"),
        (lambda: Sequencer("s").parallel(ONE, one=TWO), "two of its parallel branches are named 'one'"),
        (lambda: Sequencer("s").then(_NO_BLOCK), "a block was expected"),
        (lambda: Sequencer("s").then(Flow("f", ONE)), "is a flow, which is always the root"),
        (lambda: Sequencer("Not a name"), "a sequencer's name must match"),
    ],
)
def test_what_is_no_step_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        wrong()


@pytest.mark.parametrize("condition", [True, None, int, lambda: True, lambda a, b, c: True])
def test_what_is_no_condition_is_refused(condition: Any) -> None:
    with pytest.raises(DefinitionError, match="sequencer 's': a condition"):
        Sequencer("s").when(condition, ONE)


@pytest.mark.spec("C38")
def test_only_a_sequencer_can_have_sequencer_state() -> None:
    class Steps(BaseModel):
        done: int = 0

    counting = Capability("counting", sequencer_state=Steps)
    Sequencer("s", uses=[counting])
    for make in (handler(uses=[counting]), lambda _: Generator("g", uses=[counting])):
        with pytest.raises(KindError, match="declares sequencer_state, which only a sequencer can have"):
            make(is_set)
    with pytest.raises(KindError, match="declares tools"):
        Sequencer("s", uses=[Capability("c", tools=[])])
