"""A mixed stream of messages: all of it bounded, each invocation for itself (K8, K12, K13, K14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from capset import Message
from tests.helpers.kernel.streams.support import Done, Log, Stage, counting, given, numbers, outcomes, processor, sent
from tests.helpers.kernel.support import turns
from tests.waiting import until


async def collect(answers: AsyncIterator[Message], received: list[Message]) -> None:
    async for message in answers:
        received.append(message)  # noqa: PERF401  # what came before an error, too


@pytest.mark.spec("K13")
@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
async def test_an_input_that_raises_is_told_to_the_reader_after_all_the_rest(
    stage: Stage, error: type[BaseException]
) -> None:
    called = counting("process", Log())

    async def messages() -> AsyncGenerator[Message]:
        yield sent(called, 2)
        raise error

    async with stage(called) as opened:
        received: list[Message] = []
        async with opened.kernel.run(opened.session, messages()) as answers:
            with pytest.raises(ZeroDivisionError if error is ZeroDivisionError else RuntimeError):
                await collect(answers, received)
            assert [message async for message in answers] == []
        assert [message.kind for message in received] == ["event", "event", "reply"]
        assert await outcomes(opened) == ["succeeded"]


@pytest.mark.spec("K15")
async def test_the_input_is_closed_also_where_it_is_made_anew_or_cannot_be_closed(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    called, closed = counting("process", Log()), list[str]()

    class Source:
        def __init__(self, error: Exception | None) -> None:
            self.error = error

        async def __aiter__(self) -> AsyncIterator[Message]:
            try:
                while True:
                    yield sent(called, 1)
            finally:
                await asyncio.sleep(0)
                closed.append("closed")
                if self.error is not None:
                    raise self.error

    async with stage(called) as opened:
        for error in (None, ZeroDivisionError("as it was closed")):
            async with opened.kernel.run(opened.session, Source(error), limit=2) as answers:
                assert (await anext(answers)).kind == "event"
        assert closed == ["closed", "closed"]
        assert "as it was closed" in caplog.text
        assert set(await outcomes(opened)) <= {"succeeded", "cancelled"}


@pytest.mark.spec("K15")
async def test_an_input_that_swallows_its_cancellation_starts_nothing_more(stage: Stage) -> None:
    log = Log()
    called = counting("process", log)

    async def messages() -> AsyncGenerator[Message]:
        for _ in range(100):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            yield sent(called)

    async with stage(called) as opened:
        async with asyncio.timeout(60), opened.kernel.run(opened.session, messages()):
            await turns()
        assert log.started == []
        assert await outcomes(opened) == []


@pytest.mark.spec("K8", "K14")
async def test_while_the_consumer_stops_all_output_is_bounded_by_the_limit(stage: Stage) -> None:
    log = Log()
    called, read = counting("process", log, buffer=2), list[int]()

    async def messages() -> AsyncGenerator[Message]:
        for number in range(60):
            read.append(number)
            yield sent(called, 10)

    async with stage(called) as opened:
        async with opened.kernel.run(opened.session, messages(), limit=5) as answers:
            await asyncio.sleep(0.1)
            assert len(log.started) == 5 * 3
            assert len(read) == 6
            for taken in range(1, 30):
                await anext(answers)
                await turns(5)
                assert len(log.started) <= 5 * 3 + taken
            await asyncio.sleep(0.05)
            stopped = len(log.started)
            await asyncio.sleep(0.05)
            assert len(log.started) == stopped
            received = [message async for message in answers]
        assert len(received) == 60 * 11 - 29
        assert await outcomes(opened) == ["succeeded"] * 60


@pytest.mark.spec("K8", "K14")
async def test_one_slow_invocation_slows_no_other(stage: Stage) -> None:
    release = asyncio.Event()

    async def wait(messages: Any, emit: Any, ctx: object) -> None:
        async for _ in messages:
            await release.wait()
            await emit(Done(data=-1))

    slow, fast = processor(wait, type="Work.Slow"), counting("process", Log())
    async with stage(slow, fast) as opened:
        inputs = given([sent(slow), *[sent(fast, 3)] * 40])
        async with asyncio.timeout(60), opened.kernel.run(opened.session, inputs, limit=2) as answers:
            received = [await anext(answers) for _ in range(40 * 4)]
            release.set()
            rest = [message async for message in answers]
        assert numbers(received) == [0, 1, 2, 3] * 40
        assert numbers(rest) == [-1]


@pytest.mark.spec("K12")
async def test_what_cannot_be_routed_passes_untouched_and_in_order(stage: Stage) -> None:
    called = counting("process", Log())
    others = [Message(kind, "Any.Thing", number) for number, kind in enumerate(["event", "reply", "error"] * 20)]  # pyright: ignore[reportArgumentType]
    mixed = [message for other in others for message in (other, sent(called, 1))]
    async with stage(called) as opened:
        async with opened.kernel.run(opened.session, given(mixed)) as answers:
            received = [message async for message in answers]
        passed = [message for message in received if message.type == "Any.Thing"]
        assert all(came is went for came, went in zip(passed, others, strict=True))
        assert len(received) == 60 + 60 * 2


@pytest.mark.spec("K8", "K12")
async def test_an_unknown_type_is_one_error_among_the_others(stage: Stage) -> None:
    called = counting("process", Log())
    async with stage(called) as opened:
        mixed = [sent(called, 1), Message("command", "Work.Doo", {}), Message("query", "Work.Do", {"to": 1})]
        async with opened.kernel.run(opened.session, given(mixed)) as answers:
            received = [message async for message in answers]
        errors = {message.type: message.data for message in received if message.kind == "error"}
        assert {name: error["code"] for name, error in errors.items()} == {
            "Work.Doo": "not_found",
            "Work.Do": "invalid_arguments",
        }
        assert "Work.Do" in errors["Work.Doo"]["message"]


@pytest.mark.spec("K8")
async def test_two_who_read_one_stream_lose_nothing_and_one_is_told(stage: Stage) -> None:
    release = asyncio.Event()
    called = counting("process", Log())

    async def messages() -> AsyncGenerator[Message]:
        await release.wait()
        yield sent(called, 3)

    async def rest(answers: Any) -> list[Message]:
        return [message async for message in answers]

    async with stage(called) as opened, opened.kernel.run(opened.session, messages()) as answers:
        first = asyncio.create_task(rest(answers))
        await turns()
        with pytest.raises(RuntimeError, match="one reader"):
            await rest(answers)
        release.set()
        assert numbers(await first) == [0, 1, 2, 3]


@pytest.mark.spec("K15")
@pytest.mark.parametrize("started", [False, True])
async def test_a_reader_that_waits_elsewhere_is_told_when_the_stream_is_left(stage: Stage, started: bool) -> None:
    called = counting("process", Log())

    async def messages() -> AsyncGenerator[Message]:
        yield sent(called, 0)
        await asyncio.sleep(60)

    async with stage(called) as opened:
        async with opened.kernel.run(opened.session, messages()) as answers:
            if started:
                await anext(answers)
                reading = asyncio.create_task(anext(answers, None))
                await turns()
            else:
                reading = asyncio.create_task(anext(answers, None))
        async with asyncio.timeout(2):
            assert await reading is None
            assert await anext(answers, None) is None
        with pytest.raises(RuntimeError, match="once"):
            await answers.__aenter__()


@pytest.mark.spec("K14")
async def test_a_reader_that_gives_up_waiting_again_and_again_loses_nothing(stage: Stage) -> None:
    called = counting("process", Log(), pause=0.003)
    async with stage(called) as opened, opened.session.stream(called, to=60) as messages:
        received: list[Message] = []
        while True:
            try:
                async with asyncio.timeout(0.002):
                    received.append(await anext(messages))
            except TimeoutError:
                continue
            except StopAsyncIteration:
                break
        assert numbers(received) == list(range(61))
        await until(lambda: not opened.session._context.runtime.calls)
