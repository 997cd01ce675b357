from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from capset import Capability, Context, DefinitionError, Preset, Progress, Reply, Resource, ToolError, tool
from capset.errors import InternalError, InvalidArguments, InvalidOutput, KindError
from capset.flows import Handler, Sequencer, handler
from tests.helpers.flows.support import opened, run


class Order(BaseModel):
    article: str
    pieces: int = Field(default=1, ge=1)


def nothing() -> str:
    """Say something."""
    return "ran"


def count(ctx: Context, order: Order) -> str:
    return f"{ctx.principal.id} orders {order.pieces} {order.article}"


async def later(order: Order) -> int:
    await asyncio.sleep(0)
    return order.pieces


@pytest.mark.spec("C37")
async def test_a_handler_is_a_function_with_or_without_context_and_input() -> None:
    for function, value, expected in (
        *((nothing, None, "ran"), (nothing, "whatever comes", "ran"), (later, Order(article="pens", pieces=2), 2)),
        (count, Order(article="pens"), "ada orders 1 pens"),
        (count, {"article": "pens", "pieces": 3}, "ada orders 3 pens"),
    ):
        assert await run(Handler("a", function), value) == expected
    assert Handler("a", nothing).description == "Say something."


@pytest.mark.spec("C37")
async def test_a_sync_function_runs_in_a_thread_and_an_async_one_does_not() -> None:
    caller_thread = threading.get_ident()

    def where() -> int:
        return threading.get_ident()

    async def where_async() -> int:
        return threading.get_ident()

    assert await run(Handler("a", where)) != caller_thread
    assert await run(Handler("a", where_async)) == caller_thread


@pytest.mark.spec("C37")
async def test_the_decorator_makes_one_of_a_function() -> None:
    notes = Resource("notes", list[str], scope="session", default=list)

    @handler(resources=[notes])
    async def keep(ctx: Context, text: str) -> int:
        return len(await ctx.resource(notes).push(text))

    assert (keep.name, keep.kind) == ("keep", "handler")
    with pytest.raises(AttributeError, match="frozen"):
        keep.function = nothing
    async with opened(keep) as session:
        assert [await session.run("one"), await session.run("two")] == [1, 2]


async def test_what_does_not_fit_is_refused_going_in_and_coming_out() -> None:
    ran: list[Any] = []

    def wrong(value: int) -> int:
        ran.append(value)
        return "secret"  # pyright: ignore[reportReturnType]  # on purpose

    with pytest.raises(InvalidArguments, match=r"^Invalid input for the block 'wrong': \(the input\): Input should be"):
        await run(Handler("wrong", wrong), "1")
    assert ran == []
    with pytest.raises(InvalidOutput, match="'wrong' returned an output that does not match its type: the") as refused:
        await run(Handler("wrong", wrong), 1)
    assert "secret" not in str(refused.value)
    with pytest.raises(InvalidArguments) as raised:
        await run(Handler("a", count), {"article": "pens", "peices": 3})
    assert [str(field) for field in raised.value.fields] == ["peices: no such parameter (did you mean 'pieces'?)"]


async def test_what_it_raises_is_contained_unless_it_is_meant_to_be_read(caplog: pytest.LogCaptureFixture) -> None:
    def fails(value: str) -> None:
        raise ToolError("closed today") if value == "told" else ValueError("/etc/secret")

    with pytest.raises(ToolError, match="closed today"):
        await run(Handler("a", fails), "told")
    with pytest.raises(InternalError, match=r"^The block 'a' failed unexpectedly; the log has the details\.$") as error:
        await run(Handler("a", fails), "else")
    assert error.value.__cause__ is error.value.__context__ is None
    assert all(text in caplog.text for text in ("block 'a' failed", "/etc/secret"))


async def test_a_cancelled_error_that_nobody_asked_for_is_a_failure_like_others() -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(InternalError, match="'a' failed unexpectedly"):
        await run(Handler("a", gives_up))


def two(a: int, b: int) -> int:
    return a


def bare(a) -> int:  # pyright: ignore[reportMissingParameterType]
    return a


def silent(a: int):
    return a


def with_default(a: int = 3) -> int:
    return a


def with_noted_default(a: Annotated[int, Field(default=3)]) -> int:
    return a


async def streams(a: int) -> AsyncIterator[Progress | Reply[int]]:
    yield Reply(a)


@pytest.mark.parametrize(
    ("function", "wrong"),
    [
        (two, "has more than one input: a, b"),
        (bare, "handler 'a', parameter 'a' needs a type annotation"),
        (silent, "handler 'a' needs a return annotation"),
        (with_default, "parameter 'a': its default would never be used"),
        (with_noted_default, "parameter 'a': its default would never be used"),
        (streams, "only a tool streams"),
        (Order, "takes a function"),
        ("nothing", "takes a function"),
    ],
)
def test_what_cannot_be_right_is_refused_where_it_is_made(function: Any, wrong: str) -> None:
    with pytest.raises(DefinitionError, match=wrong):
        Handler("a", function)


@pytest.mark.parametrize("name", ["", "A", "a b", None, 3])
def test_a_name_is_one_that_a_target_can_have(name: Any) -> None:
    with pytest.raises(DefinitionError, match="a handler's name must match"):
        Handler(name, nothing)


@tool
def ping() -> str:
    """Ping."""
    return "pong"


SHOWING = Capability("showing", presets={"shown": Preset(context=[]), "rest": Preset(instructions="Be brief.")})
ABOVE = Capability("above", uses=[SHOWING])


@pytest.mark.spec("C38")
@pytest.mark.parametrize(
    ("capability", "message", "mended"),
    [
        (ABOVE, "capability 'showing', preset 'shown' (a → above → showing) declares context", "(shown=False)"),
        (Capability("c", tools=[ping]), "capability 'c' (a → c) declares tools", "a preset"),
        (Capability("c", tools=[]), "capability 'c' (a → c) declares tools", "a preset"),
    ],
)
def test_what_its_kind_cannot_have_is_refused_with_what_mends_it(
    capability: Capability, message: str, mended: str
) -> None:
    with pytest.raises(KindError) as refused:
        Handler("a", nothing, uses=[capability])
    assert refused.value.message == f"{message}, which only a generator can have; 'a' is a handler"
    assert mended in str(refused.value.hint)
    Handler("a", nothing, uses=[SHOWING.with_presets(shown=False), ABOVE])


@pytest.mark.spec("C27", "C28")
async def test_dynamic_uses_bring_helpers_for_one_run_and_no_tools() -> None:
    class Mode(BaseModel):
        is_on: bool = False

    helping = Capability("helping", helpers=lambda ctx: ctx.principal.id)
    uses: list[Any] = [helping]

    @handler(uses=[lambda ctx: uses if ctx.session.state.is_on else []], state={"session": Mode})
    async def asks(ctx: Context, value: object) -> str | None:
        if "helping" in ctx.cap:
            return ctx.use(helping)
        await ctx.state(Mode).patch(is_on=True)
        return None

    async with opened(asks) as session:
        assert [await session.run(), await session.run()] == [None, "ada"]
        uses.append(Capability("wrong", tools=[ping]))
        with pytest.raises(KindError, match=r"capability 'wrong' .* declares tools"):
            await session.run()


@pytest.mark.spec("C18")
async def test_its_files_are_there_for_it_and_for_nobody_else() -> None:
    async def has_guide(ctx: Context, value: object) -> bool:
        return await ctx.files.stat("/guide.txt") is not None

    with_file = Handler("with_file", has_guide, files={"/guide.txt": "Read me."})
    both = Sequencer("s").parallel(with_file, without=Handler("without", has_guide))
    assert await run(both) == {"with_file": True, "without": False}
