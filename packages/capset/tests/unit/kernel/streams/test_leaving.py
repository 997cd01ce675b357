"""Whoever reads may go at any time: what runs for them is cancelled and cleaned up before they are gone (K14, K15)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest

from capset import handles
from capset.errors import DeadlineExceeded
from tests.helpers.kernel.streams.support import Log, Stage, Step, counting, made, numbers, outcomes, through
from tests.helpers.kernel.support import Desk, turns
from tests.waiting import until

both_stores = pytest.mark.parametrize("stage", ["memory", "sqlite"], indirect=True)


def quiet(caplog: pytest.LogCaptureFixture) -> bool:
    loud = [log_record for log_record in caplog.records if log_record.levelno >= logging.WARNING]
    return not any(log_record.name.startswith("capset") for log_record in loud)


async def abandoned_have_ended(opened: Desk) -> None:
    await until(lambda: not opened.session._context.runtime._stopping)


@pytest.mark.spec("K7", "K8", "K10")
async def test_every_form_comes_through_every_door(stage: Stage, form: str, door: str) -> None:
    log = Log()
    called = counting(form, log)
    async with stage(called) as opened:
        async with through(door, opened, called, 3) as messages:
            received = [message async for message in messages]
        assert [message.kind for message in received] == ["event", "event", "event", "reply"]
        assert numbers(received) == [0, 1, 2, 3]
        assert await opened.session.call(called, to=2) == 2
        assert log.ended == ["clean", "clean"]
        assert await outcomes(opened) == ["succeeded", "succeeded"]


@both_stores
@pytest.mark.spec("K8", "K13", "K14", "K15")
@pytest.mark.parametrize(("taken", "count"), [(1, 50), (10, 1_000_000)])
async def test_for_one_who_leaves_early_one_more_is_made_than_was_taken_and_cancelled(
    stage: Stage, form: str, door: str, taken: int, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log()
    called = counting(form, log)
    async with stage(called) as opened:
        async with through(door, opened, called, count) as messages:
            iterator = aiter(messages)
            for _ in range(taken):
                await anext(iterator)
            await turns()
        assert (log.started, log.ended) == ([*range(taken + 1)], ["clean"])
        assert await outcomes(opened) == ["cancelled"]
        assert quiet(caplog)


@pytest.mark.spec("K15")
async def test_leaving_at_once_leaves_nothing(stage: Stage, form: str, door: str) -> None:
    log = Log()
    called = counting(form, log)
    async with stage(called) as opened:
        for wait in range(4):
            async with through(door, opened, called):
                await turns(wait)
        assert len(log.ended) <= 4
        call_outcomes = await outcomes(opened)
        assert set(call_outcomes) == {"cancelled"}
        assert len(call_outcomes) == 4 or door == "run", "a message that was not read is no call"


@pytest.mark.spec("K15")
async def test_a_reader_that_is_cancelled_or_fails_leaves_too(stage: Stage, door: str) -> None:
    log = Log()
    called = counting("process", log)

    async def consume(failure: type[Exception] | None) -> None:
        async with through(door, opened, called, 50) as messages:
            async for _ in messages:
                if failure is not None:
                    raise failure
                await asyncio.sleep(60)

    async with stage(called) as opened:
        with pytest.raises(ZeroDivisionError):
            await consume(ZeroDivisionError)
        reading = asyncio.create_task(consume(None))
        await until(lambda: len(log.started) == 4)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await consume(None)
        assert log.ended == ["clean"] * 3
        assert await outcomes(opened) == ["cancelled"] * 3


@both_stores
@pytest.mark.spec("K15", "K17")
async def test_who_never_closes_is_closed_with_the_kernel(stage: Stage, form: str, door: str, impatient: float) -> None:
    log = Log()
    called = counting(form, log)
    async with stage(called, closes=False) as opened:
        scope = through(door, opened, called, 50)
        messages = await scope.__aenter__()
        async for _ in messages:
            break
    assert log.ended == ["clean"]
    *_, last = [message async for message in messages]  # what was under way, and how it ended
    assert (last.kind, last.data["code"]) == ("error", "cancelled")
    await scope.__aexit__(None, None, None)


@pytest.mark.spec("K14", "K16")
async def test_a_million_events_that_nobody_listens_to_let_others_run(stage: Stage) -> None:
    async def handle(message: Any, emit: Any, ctx: object) -> None:
        step = Step(data=1)
        while True:
            await emit(step)

    called = made(handles(handle), timeout=0.2)
    async with stage(called) as opened:
        began = asyncio.get_running_loop().time()
        assert isinstance((await opened.session.try_call(called, to=1)).error, DeadlineExceeded)
        assert asyncio.get_running_loop().time() - began < 2


@pytest.mark.spec("K15")
async def test_one_that_never_emits_is_cancelled_where_it_waits(stage: Stage, door: str) -> None:
    ended: list[str] = []

    async def handle(message: Any, emit: object, ctx: object) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("clean")

    called = made(handles(handle))
    async with stage(called) as opened:
        async with through(door, opened, called):
            await until(lambda: opened.session._context.runtime.calls)
            await asyncio.sleep(0.05)
        assert ended == ["clean"]
        assert await outcomes(opened) == ["cancelled"]


@pytest.mark.spec("K13", "K15")
async def test_one_that_swallows_its_cancellation_and_emits_is_ended(stage: Stage, door: str, impatient: float) -> None:
    swallowed: list[int] = []

    async def handle(message: Any, emit: Any, ctx: object) -> None:
        while len(swallowed) < 1_000:
            try:
                await emit(Step(data=1))
            except asyncio.CancelledError:
                swallowed.append(1)

    called = made(handles(handle))
    async with stage(called) as opened:
        async with asyncio.timeout(60), through(door, opened, called) as messages:
            async for _ in messages:
                break
        await until(lambda: len(swallowed) == 1_000)
        await abandoned_have_ended(opened)


@pytest.mark.spec("K15", "K17")
async def test_one_that_will_not_end_is_abandoned_counted_and_reported(
    stage: Stage, door: str, impatient: float, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()

    async def handle(message: Any, emit: Any, ctx: object) -> None:
        await emit(Step(data=1))
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    called = made(handles(handle))
    async with stage(called) as opened:
        async with asyncio.timeout(3), through(door, opened, called) as messages:
            async for _ in messages:
                break
            await turns()
        assert opened.kernel.abandoned == 1
        assert caplog.text.count("is abandoned") == 1
        assert await outcomes(opened) == ["cancelled"]
        release.set()
        await abandoned_have_ended(opened)
        assert await outcomes(opened) == ["cancelled"], "what came of it later concerns nobody"
