"""What goes wrong inside becomes exactly one error, the right one, and reaches nobody else (K9, K10, K13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

import pytest

from capset import Message, tool
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
    processor,
    sent,
    through,
)
from tests.helpers.kernel.support import read, turns
from tests.waiting import until

SECRET = "hunter2"


def raising(error: Callable[[], BaseException]) -> Any:
    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for _ in messages:
            await emit(Step(data=1))
            raise error()

    return processor(process)


@pytest.mark.spec("K10", "K13")
@pytest.mark.parametrize("door", DOORS)
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
        lambda: GeneratorExit(SECRET) and ExceptionGroup("deep", [ExceptionGroup("deeper", [KeyError(SECRET)])]),
    ],
)
async def test_whatever_is_raised_becomes_one_error_that_says_nothing(
    stage: Stage, door: str, error: Callable[[], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    called = raising(error)
    async with stage(called) as opened:
        async with through(door, opened, called) as messages:
            received = [message async for message in messages]
        assert [message.kind for message in received] == ["event", "error"]
        assert codes(received) == ["internal_error"]
        assert SECRET not in str(received[-1].data)
        assert received[-1].meta
        assert received[-1].data["correlation"] == received[-1].meta.correlation
        assert received[-1].data["correlation"] in caplog.text
        assert await outcomes(opened) == ["failed"]


@pytest.mark.spec("K13")
@pytest.mark.parametrize("door", DOORS)
async def test_of_a_group_of_errors_that_are_meant_to_be_told_the_first_is(
    stage: Stage, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    def group() -> BaseException:
        inner = ExceptionGroup("deep", [ToolError("first", code="first", status=418), ToolError("second")])
        return ExceptionGroup("all", [NotFound("a refusal"), inner])

    called, refused = raising(group), made(lambda: only_refusals, type="Work.Other")

    async def only_refusals(messages: Any, emit: Any, ctx: object) -> None:
        raise ExceptionGroup("refusals", [NotFound("nothing there"), NotFound("nor there")])

    async with stage(called, refused) as opened:
        async with through(door, opened, called) as messages:
            received = [message async for message in messages]
        assert [message.kind for message in received] == ["event", "error"]
        data = received[-1].data
        assert (data["code"], data["status"], data["message"]) == ("first", 418, "first")
        assert "second" in caplog.text
        async with through(door, opened, refused) as messages:
            (error,) = [message async for message in messages]
        assert (error.data["code"], error.data["message"]) == ("not_found", "nothing there")
        assert await outcomes(opened) == ["failed", "failed"]


@pytest.mark.spec("K13", "K14")
@pytest.mark.parametrize("door", DOORS)
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

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for _ in messages:
            async with asyncio.TaskGroup() as group:
                for number in range(3):
                    group.create_task(say(emit, number))
                group.create_task(fail())
                await say(emit, 9)

    called = processor(process)
    async with stage(called) as opened:
        async with through(door, opened, called) as messages:
            await until(lambda: len(ended) == 4)
            received = [message async for message in messages]
        assert len(received) <= 3
        assert [message.kind for message in received][-1:] == ["error"]
        assert codes(received) == ["internal_error"]
        assert await outcomes(opened) == ["failed"]


@pytest.mark.spec("K13", "K16")
@pytest.mark.parametrize("door", DOORS)
async def test_a_failed_task_group_does_not_make_an_expiry_a_cancellation(
    stage: Stage, door: str, impatient: float
) -> None:
    """Python's task groups leave ``cancelling()`` raised when a child fails as the parent waits at their end."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for message in messages:
            with suppress(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    group.create_task(fail())
            if message.data.to == 1:
                raise asyncio.CancelledError
            if message.data.to == 2:
                await emit(Done(data=1))
            await asyncio.sleep(60)

    called = processor(process, timeout=0.3)
    async with stage(called) as opened:
        for to, kind, outcome in ((0, "deadline_exceeded", "timed_out"), (1, "internal_error", "failed")):
            async with through(door, opened, called, to) as messages:
                assert codes([message async for message in messages]) == [kind]
            assert (await outcomes(opened))[-1] == outcome
        async with through(door, opened, called, 2) as messages:  # it does not return after its reply
            assert [message.kind async for message in messages] == ["reply"]


@pytest.mark.spec("K9", "K13")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("factory", [lambda: 1 / 0, lambda: None, lambda: lambda *_: None, lambda: 7])
async def test_a_factory_that_raises_or_returns_nonsense(stage: Stage, door: str, factory: Any) -> None:
    called = made(factory)
    async with stage(called) as opened:
        async with through(door, opened, called) as messages:
            assert codes([message async for message in messages]) == ["internal_error"]
        result = await opened.session.try_call(called)
        assert isinstance(result.error, InternalError)
        assert await outcomes(opened) == ["failed", "failed"]


@pytest.mark.spec("K9")
async def test_what_is_invalid_never_gets_to_the_factory(stage: Stage) -> None:
    def factory() -> Any:
        raise AssertionError

    called = made(factory)
    async with stage(called) as opened:
        (error,) = await read(opened.session.invoke(Message("command", called.type, {"to": "many"})))
        assert (error.data["status"], error.data["code"]) == (422, "invalid_arguments")
        assert await outcomes(opened) == ["invalid"]


@pytest.mark.spec("K13")
async def test_a_failure_ends_no_other_call(stage: Stage) -> None:
    bad, log = raising(ZeroDivisionError), Log()
    good = counting("process", log, type="Work.Good")

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

    async def process(messages: Any, emit: Any, ctx: Any) -> None:
        async for _ in messages:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await ctx.call(sleep)
            await emit(Done(data=1))

    called = processor(process)
    async with stage(called, sleep) as opened:
        for door in DOORS:
            async with through(door, opened, called) as messages:
                assert [message.kind async for message in messages] == ["reply"]
        assert await outcomes(opened, sleep) == ["cancelled"] * len(DOORS)
