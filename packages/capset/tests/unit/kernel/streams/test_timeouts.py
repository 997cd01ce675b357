"""Whose time it is: the tool's stands still while it waits for its consumer, a deadline's does not (K16)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from capset import Meta, Progress, Reply, handles, tool
from capset.definitions.tools.definition import AnyTool
from capset.errors import DeadlineExceeded
from tests.helpers.kernel.streams.support import (
    Done,
    Log,
    Stage,
    Step,
    codes,
    counting,
    given,
    made,
    outcomes,
    sent,
    through,
)
from tests.helpers.kernel.support import turns
from tests.waiting import until

pytestmark = pytest.mark.spec("K16")


async def test_the_time_blocked_in_emit_is_not_the_tools(stage: Stage, form: str, door: str, impatient: float) -> None:
    called = counting(form, Log(), timeout=0.4)
    async with stage(called) as opened:
        async with through(door, opened, called, 4) as messages:
            kinds: list[str] = []
            async for message in messages:
                kinds.append(message.kind)
                await asyncio.sleep(0.12)
        assert kinds == ["event"] * 4 + ["reply"]
        assert opened.kernel.abandoned == 0


async def test_the_tools_own_time_is_up_however_often_it_emits(stage: Stage, form: str, door: str) -> None:
    log = Log()
    called = counting(form, log, timeout=0.3, pause=0.08)
    async with stage(called) as opened:
        began = asyncio.get_running_loop().time()
        async with through(door, opened, called, 1_000) as messages:
            received = [message async for message in messages]
        assert asyncio.get_running_loop().time() - began < 3
        assert codes(received) == ["deadline_exceeded"]
        assert received[-1].data["status"] == 504
        assert log.ended == ["clean"]
        assert await outcomes(opened) == ["timed_out"]


async def test_with_several_children_blocked_it_stands_still_until_the_last_goes_on(stage: Stage, door: str) -> None:
    async def handle(message: Any, emit: Any, ctx: object) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(emit(Step(data=number)))
        if message.data.to == 0:
            await emit(Done(data=0))
        await asyncio.sleep(60 if message.data.to else 0)

    called = made(handles(handle), timeout=0.3)
    async with stage(called) as opened:
        for to, last, ended in ((0, "reply", "succeeded"), (1, "error", "timed_out")):
            async with through(door, opened, called, to) as messages:
                kinds: list[str] = []
                async for message in messages:
                    kinds.append(message.kind)
                    await asyncio.sleep(0.12 if len(kinds) < 6 else 0)
            assert kinds == ["event"] * 5 + [last]
            assert (await outcomes(opened))[-1] == ended


@pytest.mark.parametrize("bound", ["message", "caller"])
async def test_a_deadline_runs_while_it_is_blocked(stage: Stage, form: str, bound: str) -> None:
    log = Log()
    called = counting(form, log, timeout=60)
    async with stage(called) as opened:
        meta = Meta("in-1", "2026-01-01T00:00:00.000000Z", "thread-1", deadline=time.time() + 1)
        session = opened.session.options(timeout=0.2 if bound == "caller" else None)
        async with session.invoke(sent(called, 50, meta=meta if bound == "message" else None)) as messages:
            await anext(messages)
            await until(lambda: log.ended == ["clean"])
            assert codes([message async for message in messages]) == ["deadline_exceeded"]
        assert await outcomes(opened) == ["timed_out"]


@pytest.mark.parametrize("end", ["returns", "replies", "raises"])
async def test_an_expiry_is_one_also_where_it_is_swallowed(stage: Stage, door: str, end: str) -> None:
    async def handle(message: Any, emit: Any, ctx: object) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        if end == "replies":
            await emit(Done(data=1))
        elif end == "raises":
            raise ValueError

    called = made(handles(handle), timeout=0.1)
    async with stage(called) as opened:
        async with through(door, opened, called) as messages:
            assert codes([message async for message in messages]) == ["deadline_exceeded"]
        assert await outcomes(opened) == ["timed_out"]


@pytest.mark.parametrize("first", ["expiry", "leaving"])
@pytest.mark.parametrize("swallows", [False, True])
async def test_a_cancellation_from_outside_beats_an_expiry(stage: Stage, door: str, first: str, swallows: bool) -> None:
    cleaning = asyncio.Event()

    async def handle(message: Any, emit: Any, ctx: object) -> None:
        with suppress(asyncio.CancelledError if swallows else KeyError):
            try:
                await asyncio.sleep(60)
            finally:
                cleaning.set()
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.4)

    called = made(handles(handle), timeout=0.2)
    async with stage(called) as opened:
        async with through(door, opened, called):
            if first == "expiry":
                await cleaning.wait()
            else:
                await until(lambda: opened.session._context.runtime.calls)
                await turns()
        if first == "expiry" or not swallows:
            assert await outcomes(opened) == ["cancelled"]


@pytest.mark.parametrize("door", ["stream", "run", "open"])
async def test_a_stalled_consumer_ends_its_call(stage: Stage, form: str, door: str) -> None:
    log = Log()
    called = counting(form, log, timeout=60)
    async with stage(called) as opened:
        other = type(opened)(opened.kernel, opened.session.options(consumer_timeout=0.1))
        async with through(door, other, called, 50) as messages:
            iterator = aiter(messages)
            for _ in range(2):
                await anext(iterator)
            await until(lambda: log.ended == ["clean"])
            *_, last = [message async for message in iterator]
        assert (last.kind, last.data["code"], last.data["status"]) == ("error", "consumer_timeout", 504)
        assert await outcomes(opened) == ["timed_out"]


async def test_a_slow_consumer_is_not_a_stalled_one(stage: Stage) -> None:
    async def handle(message: Any, emit: Any, ctx: object) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(emit(Step(data=number)))

    called = made(handles(handle))
    async with stage(called) as opened, opened.session.options(consumer_timeout=0.25).stream(called) as messages:
        numbers: list[int] = []
        async for message in messages:
            numbers.append(message.data)
            await asyncio.sleep(0.1)
    assert numbers == list(range(8))


@pytest.mark.spec("K15")
async def test_a_generator_that_fails_to_close_changes_nothing(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def grudging() -> AsyncIterator[Progress | Reply[int]]:
        """Will not be closed."""
        with suppress(GeneratorExit):
            for _ in range(9):
                yield Progress(0.5)
        yield Reply(1)

    async with stage(grudging) as opened:
        async with opened.session.stream(grudging) as messages:
            await anext(messages)
            await turns()
        async with opened.session.options(consumer_timeout=0.05).stream(grudging) as messages:
            await anext(messages)
            await asyncio.sleep(0.2)
            assert codes([message async for message in messages]) == ["consumer_timeout"]
        assert "failed as it was closed" in caplog.text
        assert await outcomes(opened) == ["cancelled", "timed_out"]


class Stubborn:
    """Tools that go on until they are let go, whoever cancels them."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.is_cancelled = asyncio.Event()

    async def wait(self) -> None:
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.is_cancelled.set()

    def processor(self, **options: Any) -> AnyTool:
        async def handle(message: Any, emit: Any, ctx: object) -> None:
            await emit(Step(data=1))
            await self.wait()
            with suppress(BaseException):
                await emit(Done(data=1))
                await emit(Step(data=2))

        return made(handles(handle), **options)

    def function(self, **options: Any) -> AnyTool:
        @tool(name="work", **options)
        async def work(to: int) -> AsyncIterator[Progress | Reply[int]]:
            """Work."""
            yield Progress(0.5)
            await self.wait()
            yield Reply(1)

        return work


@pytest.mark.spec("K15")
@pytest.mark.parametrize("shape", [Stubborn.processor, Stubborn.function])
async def test_its_call_ends_with_504_once_the_bound_is_over(
    stage: Stage, door: str, shape: Callable[..., AnyTool], impatient: float
) -> None:
    stubborn = Stubborn()
    called = shape(stubborn, timeout=0.1)
    async with stage(called) as opened:
        async with asyncio.timeout(60), through(door, opened, called) as messages:
            received = [message async for message in messages]
        assert stubborn.is_cancelled.is_set()
        assert codes(received) == ["deadline_exceeded"]
        assert [message.kind for message in received] == ["event", "error"]
        assert await outcomes(opened) == ["timed_out"]
        assert opened.kernel.abandoned == 1
        stubborn.let_go.set()
        await turns(20)
        assert await outcomes(opened) == ["timed_out"], "what came of it later concerns nobody"


@pytest.mark.spec("K15")
@pytest.mark.parametrize("bound", ["timeout", "deadline"])
async def test_so_does_that_of_a_message_without_a_reader(stage: Stage, bound: str, impatient: float) -> None:
    stubborn = Stubborn()
    called = stubborn.function(timeout=0.1 if bound == "timeout" else None)
    async with stage(called) as opened:
        session = opened.session.options(timeout=0.1) if bound == "deadline" else opened.session
        async with asyncio.timeout(60):
            result = await session.try_message(session.message("work", {"to": 1}))
        assert isinstance(result.error, DeadlineExceeded)
        assert await outcomes(opened) == ["timed_out"]
        stubborn.let_go.set()
        await turns(20)


@pytest.mark.spec("K15")
async def test_in_a_mixed_stream_the_others_go_on_and_its_place_is_free_again(stage: Stage, impatient: float) -> None:
    stubborn = Stubborn()
    called = stubborn.processor(timeout=0.1)
    async with stage(called) as opened:
        inbound = given(sent(called, 1) for _ in range(3))
        async with asyncio.timeout(60), opened.kernel.run(opened.session, inbound, limit=1) as answers:
            received = [message async for message in answers]
        assert codes(received) == ["deadline_exceeded"] * 3
        assert opened.kernel.abandoned == 3
        stubborn.let_go.set()
        await turns(20)
