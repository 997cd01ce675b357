"""Whose time it is: the tool's stands still while it waits for its consumer, a deadline's does not (K16)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from capset import Message, Meta, Progress, Reply, tool
from tests.helpers.kernel.streams.support import (
    DOORS,
    FORMS,
    Done,
    Log,
    Stage,
    Step,
    codes,
    counting,
    outcomes,
    processor,
    sent,
    through,
)
from tests.helpers.kernel.support import read, turns
from tests.waiting import until


def meta(seconds: float) -> Meta:
    return Meta("in-1", "2026-01-01T00:00:00.000000Z", "thread-1", deadline=time.time() + seconds)


@pytest.mark.spec("K16")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", FORMS)
async def test_the_time_blocked_in_emit_is_not_the_tools(stage: Stage, form: str, door: str) -> None:
    called = counting(form, Log(), timeout=0.4)
    async with stage(called) as opened:
        async with through(door, opened, called, 4) as messages:
            received: list[Message] = []
            async for message in messages:
                received.append(message)
                await asyncio.sleep(0.12)
        assert codes(received) == []
        assert len(received) == 5


@pytest.mark.spec("K16")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", FORMS)
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


@pytest.mark.spec("K16")
@pytest.mark.parametrize("door", DOORS)
async def test_with_several_children_blocked_it_stands_still_until_the_last_goes_on(stage: Stage, door: str) -> None:
    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for message in messages:
            async with asyncio.TaskGroup() as group:
                for number in range(5):
                    group.create_task(emit(Step(data=number)))
            if message.data.to == 0:
                await emit(Done(data=0))
            await asyncio.sleep(60 if message.data.to else 0)

    called = processor(process, timeout=0.3)
    async with stage(called) as opened:
        for to, last in ((0, "reply"), (1, "error")):
            async with through(door, opened, called, to) as messages:
                received: list[Message] = []
                async for message in messages:
                    received.append(message)
                    await asyncio.sleep(0.12 if len(received) < 6 else 0)
            assert [message.kind for message in received] == ["event"] * 5 + [last]
        assert codes(received) == ["deadline_exceeded"]


@pytest.mark.spec("K16")
@pytest.mark.parametrize("form", FORMS)
async def test_a_deadline_runs_while_it_is_blocked(stage: Stage, form: str) -> None:
    log = Log()
    called = counting(form, log, timeout=60)
    async with stage(called) as opened:
        for meant in (opened.session.invoke(sent(called, 50, meta=meta(1))), None):
            stream = meant or opened.session.options(timeout=0.2).stream(called, to=50)
            async with stream as messages:
                await anext(messages)
                await until(lambda: log.ended == ["clean"])
                assert codes([message async for message in messages]) == ["deadline_exceeded"]
            log.ended.clear()
        assert await outcomes(opened) == ["timed_out"] * 2


@pytest.mark.spec("K16")
@pytest.mark.parametrize("form", FORMS)
async def test_a_deadline_that_is_past_starts_nothing(stage: Stage, form: str) -> None:
    log = Log()
    called = counting(form, log)
    async with stage(called) as opened:
        assert codes(await read(opened.session.invoke(sent(called, meta=meta(-1))))) == ["deadline_exceeded"]
        assert log.started == []
        assert await outcomes(opened) == ["timed_out"]


@pytest.mark.spec("K16")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("end", ["returns", "replies", "raises"])
async def test_an_expiry_is_one_also_where_it_is_swallowed(stage: Stage, door: str, end: str) -> None:
    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for _ in messages:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            if end == "replies":
                await emit(Done(data=1))
            elif end == "raises":
                raise ValueError

    called = processor(process, timeout=0.1)
    async with stage(called) as opened:
        async with through(door, opened, called) as messages:
            assert codes([message async for message in messages]) == ["deadline_exceeded"]
        assert await outcomes(opened) == ["timed_out"]


@pytest.mark.spec("K16")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("first", ["expiry", "leaving"])
@pytest.mark.parametrize("swallows", [False, True])
async def test_a_cancellation_from_outside_wins_over_an_expiry(
    stage: Stage, door: str, first: str, swallows: bool
) -> None:
    cleaning = asyncio.Event()

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for _ in messages:
            try:
                await asyncio.sleep(60)
            finally:
                cleaning.set()
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.4)
            if not swallows:
                raise asyncio.CancelledError

    async def process_swallowing(messages: Any, emit: Any, ctx: object) -> None:
        with suppress(asyncio.CancelledError):
            await process(messages, emit, ctx)

    called = processor(process_swallowing if swallows else process, timeout=0.2)
    async with stage(called) as opened:
        async with through(door, opened, called):
            if first == "expiry":
                await cleaning.wait()
            else:
                await until(lambda: opened.session._context.runtime.calls)
                await turns()
        if first == "expiry" or not swallows:
            assert await outcomes(opened) == ["cancelled"]


@pytest.mark.spec("K16")
@pytest.mark.parametrize("door", ["stream", "run", "open"])
@pytest.mark.parametrize("form", FORMS)
async def test_a_stalled_consumer_ends_its_call(stage: Stage, form: str, door: str) -> None:
    log = Log()
    called = counting(form, log, timeout=60)
    async with stage(called) as opened:
        other = type(opened)(opened.kernel, opened.session.options(consumer_timeout=0.1))
        async with through(door, other, called, 50) as messages:
            received: list[Message] = []
            async for message in messages:
                received.append(message)
                if len(received) == 2:
                    await until(lambda: log.ended == ["clean"])
        assert codes(received) == ["consumer_timeout"]
        assert (received[-1].kind, received[-1].data["status"]) == ("error", 504)
        assert await outcomes(opened) == ["timed_out"]


@pytest.mark.spec("K16")
async def test_a_slow_consumer_is_not_a_stalled_one(stage: Stage) -> None:
    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for _ in messages:
            async with asyncio.TaskGroup() as group:
                for number in range(8):
                    group.create_task(emit(Step(data=number)))

    called = processor(process)
    async with stage(called) as opened:
        async with opened.session.options(consumer_timeout=0.25).stream(called) as messages:
            numbers: list[int] = []
            async for message in messages:
                numbers.append(message.data)
                await asyncio.sleep(0.1)
        assert numbers == list(range(8))


@pytest.mark.spec("K15", "K16")
async def test_a_generator_that_fails_as_it_is_closed_changes_no_outcome(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
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
        stalled = opened.session.options(consumer_timeout=0.05).stream(grudging)
        async with stalled as messages:
            await anext(messages)
            await asyncio.sleep(0.2)
            assert codes([message async for message in messages]) == ["consumer_timeout"]
        assert "failed as it was closed" in caplog.text
        assert await outcomes(opened) == ["cancelled", "timed_out"]
