"""Errors of handlers whose classes, or instances, are a host's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from capset import Agent, Capability, Context, Session, ToolError, tool
from capset.definitions.blocks import Block
from capset.definitions.governance.settings import Governance
from capset.definitions.tools.definition import AnyTool
from capset.errors import CapsetError, Field, InternalError, TransientError
from capset.flows import Handler
from tests.helpers.kernel.support import desk, opened, read

writes = tool(effect="write", description="For a test.")


def clerk(*tools: AnyTool) -> Agent:
    return Agent("clerk", uses=[Capability("kit", tools=tools)])


class SoldOut(ToolError):
    def __init__(self, item: str, remaining: int) -> None:
        super().__init__(f"only {remaining} of {item} left", fields=[Field("item", f"not {item}")])
        self.left = remaining


class Wordless(ToolError):
    def __init__(self, item: str) -> None:
        self.item = item


@writes
async def order(item: str) -> str:
    raise SoldOut(item, 3)


@writes
async def grumble(item: str) -> str:
    raise Wordless(item)


@writes
async def relay(ctx: Context, name: str) -> str:
    return await ctx.call({"order": order, "grumble": grumble}[name], item="tea")


@pytest.mark.spec("G19", "K13")
@pytest.mark.parametrize("redact", [(), (r"sk-[0-9]+",)])
async def test_an_error_of_a_class_of_its_own_fails_its_call_and_the_call_around_it(
    redact: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(clerk(order, grumble, relay), governance=Governance(redact=redact)) as harness:
        session = harness.session
        for result in (await session.try_call(order, item="tea"), await session.try_call(relay, name="order")):
            error = result.error
            assert isinstance(error, SoldOut)
            assert (error.message, error.left, str(error.fields[0])) == ("only 3 of tea left", 3, "item: not tea")
        for result in (await session.try_call(grumble, item="tea"), await session.try_call(relay, name="grumble")):
            assert isinstance(result.error, InternalError)
        outcomes = [(record.tool, record.outcome) for record in await harness.records()]
        tools = ("order", "order", "relay", "grumble", "grumble", "relay")
        assert outcomes == [(name, "failed") for name in tools]
    assert "Wordless.__init__ does not call that of its base class" in caplog.text
    assert "still running" not in caplog.text


@pytest.mark.spec("K13")
async def test_what_one_call_makes_of_a_shared_error_no_other_sees() -> None:
    busy = TransientError("busy")

    @writes
    async def save() -> None:
        raise busy

    load = replace(save, name="load", effect="read")
    async with desk(save, load) as harness:
        saved, loaded = [(await harness.session.try_call(called)).error for called in (save, load)]
        assert saved is not None
        assert loaded is not None
        assert (saved.retryable, loaded.retryable) == (False, True)
        assert saved.correlation != loaded.correlation
        assert busy.correlation is None


@pytest.mark.spec("K13")
async def test_a_text_that_no_interface_can_send_is_mended() -> None:
    broken = b"a\xff.txt".decode(errors="surrogateescape")

    @tool(effect="read")
    async def look() -> None:
        """Look."""
        raise ToolError(f"no file {broken}", hint=broken, fields=[Field(broken, broken, broken)])

    async with desk(look) as harness:
        error = (await harness.session.try_call(look)).error
        assert error is not None
        assert (str(error), error.message, error.hint) == ("no file a?.txt", "no file a?.txt", "a?.txt")
        assert error.fields == (Field("a?.txt", "a?.txt", "a?.txt"),)


class Unlucky(Exception):
    """What a handler fails with, and what nobody else is to read."""


@writes
async def break_down(*, meant: bool = False) -> str:
    try:
        raise Unlucky("the password is hunter2")
    except Unlucky as error:
        if meant:
            raise ToolError("closed today") from error
        raise


@writes
def break_down_in_a_thread(*, meant: bool = False) -> str:
    raise Unlucky("the password is hunter2") from (ToolError("before") if meant else None)


@writes
async def pass_on(ctx: Context, *, meant: bool = False) -> str:
    return await ctx.call(break_down, meant=meant)


FAILING = (break_down, break_down_in_a_thread, pass_on)


def held_by(error: BaseException) -> Iterator[object]:
    """Yield the exceptions behind an error, and all that stands in the frames that it came through."""
    for behind in (error.__cause__, error.__context__):
        if behind is not None:
            yield behind
            yield from held_by(behind)
    trace = error.__traceback__
    while trace is not None:
        yield from trace.tb_frame.f_locals.values()
        trace = trace.tb_next


def holds_unlucky(error: BaseException) -> bool:
    return any(isinstance(referent, Unlucky) for referent in held_by(error))


async def errors_of(session: Session, failing: AnyTool, *, meant: bool) -> list[CapsetError]:
    """Return the errors of a call, which is made in four ways."""
    await read(messages := session.stream(failing, meant=meant))
    by_name = await session.try_message(session.message(failing.name, {"meant": meant}))
    with pytest.raises(CapsetError) as raised:
        await session.call(failing, meant=meant)
    errors = [(await session.try_call(failing, meant=meant)).error, messages.result.error, by_name.error, raised.value]
    return [error for error in errors if error is not None]


@pytest.mark.spec("G62", "G24", "T17")
@pytest.mark.parametrize("meant", [False, True])
@pytest.mark.parametrize("failing", FAILING, ids=lambda failing: failing.name)
async def test_an_error_of_a_call_holds_nothing_of_its_handler_unless_the_host_asks(
    failing: AnyTool, caplog: pytest.LogCaptureFixture, *, meant: bool
) -> None:
    async with opened(clerk(*FAILING)) as harness:
        errors = await errors_of(harness.session, failing, meant=meant)
        assert len(errors) == 4
        for error in errors:
            assert error.__cause__ is error.__context__ is None
            assert not holds_unlucky(error)
    if not meant:
        assert "hunter2" in caplog.text, "the log has it"
    async with opened(clerk(*FAILING), governance=Governance(error_causes=True)) as harness:
        assert all(map(holds_unlucky, await errors_of(harness.session, failing, meant=meant)))


@pytest.mark.spec("G62")
async def test_an_error_of_a_run_or_of_a_prompt_holds_nothing_of_its_function_unless_the_host_asks() -> None:
    def fails(input: object) -> str:
        raise Unlucky("the password is hunter2")

    for has_causes in (False, True):
        governance = Governance(error_causes=has_causes)
        blocks: list[Block] = [Handler("failing", fails), Agent("failing", context=[fails])]
        for block in blocks:
            async with opened(block, governance=governance) as harness:
                with pytest.raises(CapsetError) as raised:
                    await (harness.session.run("x") if isinstance(block, Handler) else harness.session.system_text())
            assert holds_unlucky(raised.value) is has_causes
