from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capset import Agent, Capability, Context, DefinitionError, Resource
from capset.errors import InternalError, InvalidArguments, KindError
from capset.flows import Router, as_tool, handler
from tests.helpers.flows.support import add, opened, run

ONE, TWO = add("one", 1), add("two", 2)


def by_size(value: int, ctx: Context) -> str:
    return "small" if value < 10 else "large"


@pytest.mark.spec("C37")
async def test_it_runs_the_one_route_that_is_chosen_which_may_take_time_and_read_the_context() -> None:
    visits = Resource("seen", int, scope="session", default=0)

    async def first_time(value: int, ctx: Context) -> str:
        return "first" if await ctx.resource(visits).increment() == 1 else "again"

    router = Router("r", first_time, routes={"first": ONE, "again": TWO}, resources=[visits])
    async with opened(router) as session:
        assert [await session.run(0), await session.run(0)] == [1, 2]
    by_value = Router("sizes", by_size, routes={"small": ONE, "large": TWO}, input=int)
    assert [await run(by_value, 1), await run(by_value, 10)] == [2, 12]


async def test_two_routes_may_lead_to_one_block_and_a_choice_needs_no_context() -> None:
    router = Router("r", lambda value: "even" if value % 2 == 0 else "odd", routes={"even": ONE, "odd": ONE})
    assert [await run(router, 1), await run(router, 2)] == [2, 3]
    assert list(router.children) == ["one"]


@pytest.mark.spec("C37")
@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("smal", "The router 'r' chose an unknown route 'smal'; did you mean 'small'?"),
        ("x", "The router 'r' chose an unknown route 'x'; available: large, small"),
        (None, "The router 'r' chose NoneType, not a route's name."),
    ],
)
async def test_an_undeclared_route_is_an_error_that_helps(chosen: Any, message: str) -> None:
    with pytest.raises(InternalError) as failed:
        await run(Router("r", lambda value: chosen, routes={"small": ONE, "large": TWO}), 1)
    assert str(failed.value) == message


async def test_a_choice_that_fails_is_named_and_a_wrong_input_never_reaches_it() -> None:
    inputs: list[object] = []

    def choose(value: int) -> str:
        inputs.append(value)
        raise KeyError(value)

    router = Router("r", choose, routes={"one": ONE}, input=int)
    with pytest.raises(InternalError, match="The function 'choose' of 'r' failed: KeyError"):
        await run(router, 1)
    with pytest.raises(InvalidArguments, match="Invalid input for the block 'r'"):
        await run(router, "1")
    assert inputs == [1]


@pytest.mark.parametrize(
    ("choose", "routes", "message"),
    [
        (by_size, {}, "routes must be a mapping of names to at least one block"),
        (by_size, [ONE], "routes must be a mapping of names to"),
        (by_size, {"": ONE}, "a route's name must match"),
        (by_size, {"a": by_size}, "router 'r', route 'a': a block was expected"),
        (by_size, {"a": ONE, "b": add("one", 2)}, "two of its blocks are named 'one'"),
        ("small", {"a": ONE}, r"choose must be a function of \(input, context\)"),
        (lambda: "a", {"a": ONE}, r"choose must take \(input, context\), or the value alone"),
    ],
)
def test_what_cannot_be_right_is_refused(choose: Any, routes: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Router("r", choose, routes=routes)


def test_its_output_is_what_any_route_gives() -> None:
    @handler()
    def text(value: int) -> str:
        return str(value)

    integer = {"type": "integer"}
    for route, expected in ((TWO, integer), (text, {"anyOf": [integer, {"type": "string"}]})):
        output = Router("r", by_size, routes={"a": ONE, "b": route}).output
        assert output is not None
        assert output.json_schema == expected


class Found(BaseModel):
    count: int


class Missed(BaseModel):
    count: int


@pytest.mark.spec("C37")
async def test_a_route_may_give_another_type_of_the_same_fields() -> None:
    @handler()
    def hit(value: int) -> Found:
        return Found(count=value)

    @handler()
    def missed(value: int) -> Missed:
        return Missed(count=value)

    look = as_tool(Router("r", by_size, routes={"small": hit, "large": missed}, input=int, description="Look."))
    assert hit.output is not None
    assert look.output.json_schema == hit.output.json_schema
    async with opened(Agent("agent", tools=[look])) as session:
        assert [await session.call(look, input=value) for value in (1, 10)] == [Found(count=1), Missed(count=10)]


@pytest.mark.spec("C38")
@pytest.mark.parametrize("surface", ["context", "tools"])
def test_context_and_tools_are_not_for_a_router(surface: str) -> None:
    capability = Capability("c", **{surface: []})  # pyright: ignore[reportArgumentType]  # by its name
    with pytest.raises(KindError, match=f"declares {surface}, which only a generator can have; 'r' is a router"):
        Router("r", by_size, routes={"a": ONE}, uses=[capability])
