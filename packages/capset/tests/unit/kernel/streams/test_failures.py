"""What goes wrong inside becomes exactly one error, the right one, and reaches nobody else (K9, K10, K13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

import pytest

from capset import Message, handles, tool
from capset.errors import InternalError, NotFound, ToolError
from tests.helpers.kernel.streams.support import (
    DOORS,
    Done,
    Log,
    Stage,
    Step,
    codes,
    counting,
    made,
    outcomes,
    sent,
    through,
)
from tests.helpers.kernel.support import read, turns
from tests.waiting import until

SECRET = "hunter2"


def raising(error: Callable[[], BaseException], type: str = "Work.Do") -> Any:
    async def handle(message: Any, emit: Any, ctx: object) -> None:
        await emit(Step(data=1))
        raise error()

    return made(handles(handle), type)


@pytest.mark.spec("K10", "K13")
@pytest.mark.parametrize(
    "error",
    [
        lambda: ZeroDivisionError(SECRET),
        lambda: ExceptionGroup("two", [ValueError(SECRET), ToolError("told")]),
        lambda: BaseExceptionGroup("two", [asyncio.CancelledError(), ValueError(SECRET)]),
        lambda: BaseExceptionGroup("one", [asyncio.CancelledError()]),
        lambda: asyncio.CancelledError(SECRET),
        lambda: SystemExit(SECRET),
        lambda: TimeoutError(SECRET),
        lambda: StopAsyncIteration(SECRET),
        lambda: ExceptionGroup("deep", [ExceptionGroup("deeper", [KeyError(SECRET)])]),
    ],
)
async def test_whatever_is_raised_becomes_one_error_that_says_nothing(
    stage: Stage, door: str, error: Callable[[], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    called = raising(error)
    async with stage(called) as opened:
        async with through(door, opened, called) as messages:
            event, last = [message async for message in messages]
        assert (event.kind, codes([last])) == ("event", ["internal_error"])
        assert SECRET not in str(last.data)
        assert last.meta
        assert last.data["correlation"] == last.meta.correlation
        assert last.data["correlation"] in caplog.text
        assert await outcomes(opened) == ["failed"]


@pytest.mark.spec("K13")
async def test_of_grouped_errors_the_first_is_told(stage: Stage, door: str, caplog: pytest.LogCaptureFixture) -> None:
    def group() -> BaseException:
        inner = ExceptionGroup("deep", [ToolError("first", code="first", status=418), ToolError("second")])
        return ExceptionGroup("all", [NotFound("a refusal"), inner])

    def refusals() -> BaseException:
        return ExceptionGroup("refusals", [NotFound("nothing there"), NotFound("nor there")])

    called, refused = raising(group), raising(refusals, "Work.Other")
    async with stage(called, refused) as opened:
        for failing, expected in ((called, ("first", 418, "first")), (refused, ("not_found", 404, "nothing there"))):
            async with through(door, opened, failing) as messages:
                event, error = [message async for message in messages]
            assert (event.kind, error.kind) == ("event", "error")
            assert (error.data["code"], error.data["status"], error.data["message"]) == expected
        assert "second" in caplog.text
        assert await outcomes(opened) == ["failed", "failed"]


@pytest.mark.spec("K13", "K14")
async def test_a_child_fails_while_its_parent_and_its_siblings_are_blocked_in_emit(stage: Stage, door: str) -> None:
    ended: list[str] = []

    async def fail() -> None:
        await turns(5)
        raise ValueError(SECRET)

    async def say(emit: Any, number: int) -> None:
        try:
            while True:
                await emit(Step(data=number))
        finally:
            ended.append("child")

    async def handle(message: Any, emit: Any, ctx: object) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(say(emit, number))
            group.create_task(fail())
            await say(emit, 9)

    called = made(handles(handle))
    async with stage(called) as opened:
        async with through(door, opened, called) as messages:
            await until(lambda: len(ended) == 4)
            received = [message async for message in messages]
        assert len(received) <= 3
        assert codes(received[-1:]) == codes(received) == ["internal_error"]
        assert await outcomes(opened) == ["failed"]


@pytest.mark.spec("K13", "K16")
async def test_a_failed_task_group_makes_no_expiry_a_cancellation(stage: Stage, door: str, impatient: float) -> None:
    """Python's task groups leave ``cancelling()`` raised when a child fails as the parent waits at their end."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError

    async def handle(message: Any, emit: Any, ctx: object) -> None:
        with suppress(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
        if message.data.to == 1:
            raise asyncio.CancelledError
        if message.data.to == 2:
            await emit(Done(data=1))
        await asyncio.sleep(60)

    called = made(handles(handle), timeout=0.3)
    async with stage(called) as opened:
        for to, code, outcome in ((0, "deadline_exceeded", "timed_out"), (1, "internal_error", "failed")):
            async with through(door, opened, called, to) as messages:
                assert codes([message async for message in messages]) == [code]
            assert (await outcomes(opened))[-1] == outcome
        async with through(door, opened, called, 2) as messages:  # it does not return after its reply
            assert [message.kind async for message in messages] == ["reply"]


@pytest.mark.spec("K9", "K13")
@pytest.mark.parametrize("factory", [lambda: 1 / 0, lambda: None, lambda: lambda *_: None, lambda: 7])
async def test_a_factory_that_raises_or_returns_nonsense_fails_its_call(stage: Stage, door: str, factory: Any) -> None:
    called = made(factory)
    async with stage(called) as opened:
        async with through(door, opened, called) as messages:
            assert codes([message async for message in messages]) == ["internal_error"]
        assert isinstance((await opened.session.try_call(called)).error, InternalError)
        assert await outcomes(opened) == ["failed", "failed"]


@pytest.mark.spec("K9")
async def test_what_is_invalid_never_gets_to_the_factory(stage: Stage) -> None:
    called = made(lambda: pytest.fail("it was made"))
    async with stage(called) as opened:
        (error,) = await read(opened.session.invoke(Message("command", called.type, {"to": "many"})))
        assert (error.data["status"], error.data["code"]) == (422, "invalid_arguments")
        assert await outcomes(opened) == ["invalid"]


@pytest.mark.spec("K13")
async def test_a_failure_ends_no_other_call(stage: Stage) -> None:
    bad, good = raising(ZeroDivisionError), counting("process", Log(), type="Work.Good")

    async def both() -> AsyncGenerator[Message]:
        for _ in range(20):
            yield sent(bad)
            yield sent(good, 2)

    async with stage(bad, good) as opened:
        async with opened.kernel.run(opened.session, both()) as answers:
            received = [message async for message in answers]
        assert codes(received) == ["internal_error"] * 20
        assert [message.kind for message in received].count("reply") == 20


@pytest.mark.spec("K13")
async def test_a_cancellation_inside_a_nested_call_is_the_caller_s(stage: Stage) -> None:
    @tool
    async def sleep() -> int:
        """Sleep."""
        await asyncio.sleep(60)
        return 1

    async def handle(message: Any, emit: Any, ctx: Any) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await ctx.call(sleep)
        await emit(Done(data=1))

    called = made(handles(handle))
    async with stage(called, sleep) as opened:
        for door in DOORS:
            async with through(door, opened, called) as messages:
                assert [message.kind async for message in messages] == ["reply"]
        assert await outcomes(opened, sleep) == ["cancelled"] * len(DOORS)
