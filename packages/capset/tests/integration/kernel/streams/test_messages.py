"""A call as a stream: in order, at the reader's pace, and over when the reader leaves (spec 3, K8–K15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from capset import Message, Messages, Progress, Reply, tool
from capset.errors import NoOutcome
from capset.kernel import runtime
from tests.helpers.kernel.support import desk, read, turns
from tests.waiting import until

STARTED: list[int] = []
CLOSED: list[str] = []


@pytest.fixture(autouse=True)
def anew() -> None:
    STARTED.clear()
    CLOSED.clear()


@tool
async def count(to: int = 4) -> AsyncIterator[Progress | Reply[int]]:
    """Count; note every emission that is started, and how it ended."""
    try:
        for number in range(to):
            STARTED.append(number)
            yield Progress(number / to, f"{number}")
        STARTED.append(to)
        yield Reply(to)
    except asyncio.CancelledError:
        CLOSED.append("cancelled")
        raise
    except GeneratorExit:
        CLOSED.append("closed")
        raise
    finally:
        await asyncio.sleep(0)
        CLOSED.append("cleaned up")


@tool(effect="read")
async def silent(events: int = 2) -> AsyncIterator[Progress | Reply[int]]:
    """End without a reply."""
    for _ in range(events):
        yield Progress(0.5)


@tool
async def stuck() -> AsyncIterator[Progress | Reply[int]]:
    """Emit once, then wait without end."""
    try:
        yield Progress(0.0)
        await asyncio.get_running_loop().create_future()
    finally:
        await asyncio.sleep(0)
        CLOSED.append("cleaned up")


@tool
async def stubborn() -> AsyncIterator[Progress | Reply[int]]:
    """Go on emitting, whatever happens."""
    while True:
        try:
            yield Progress(0.5)
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            CLOSED.append("swallowed")


@pytest.mark.spec("K10", "K11")
async def test_messages_come_in_order_and_are_stamped() -> None:
    async with desk(count) as opened:
        stream = opened.session.stream(count)
        messages = await read(stream)
        assert [(message.kind, message.type) for message in messages] == [("event", "progress")] * 4 + [
            ("reply", "count")
        ]
        assert [message.data["message"] for message in messages[:4]] == ["0", "1", "2", "3"]
        assert messages[4].data == 4
        metas = [message.meta for message in messages if message.meta]
        assert len({meta.id for meta in metas}) == 5
        assert [meta.timestamp for meta in metas] == sorted(meta.timestamp for meta in metas)
        assert {meta.correlation for meta in metas} == {stream.correlation}
        assert (await opened.record()).id == stream.record


@pytest.mark.spec("K14")
async def test_a_stream_is_never_more_than_one_ahead_of_its_reader() -> None:
    async with desk(count) as opened, opened.session.stream(count, 20) as messages:
        for taken in range(20):
            await turns(10)
            assert len(STARTED) == taken + 1
            assert (await anext(messages)).data["message"] == f"{taken}"


@pytest.mark.spec("K14")
async def test_a_slow_reader_slows_no_other() -> None:
    async with desk(count) as opened, opened.session.stream(count, 3) as slow:
        assert (await anext(slow)).kind == "event"
        async with asyncio.timeout(60):
            assert len(await read(opened.session.stream(count, 200))) == 201
        assert [message.kind async for message in slow] == ["event", "event", "reply"]


@pytest.mark.spec("K8", "K10")
async def test_without_a_reply_a_stream_ends_as_a_success_and_a_call_has_no_outcome() -> None:
    async with desk(silent) as opened:
        stream = opened.session.stream(silent)
        assert [message.kind for message in await read(stream)] == ["event", "event"]
        assert (stream.result.success, stream.result.data) == (True, None)
        with pytest.raises(NoOutcome) as raised:
            await opened.session.call(silent)
        assert raised.value.correlation == (await opened.records())[-1].correlation
        assert await read(opened.session.stream(silent, 0)) == []
        assert {record.outcome for record in await opened.records()} == {"succeeded"}


@pytest.mark.spec("K15")
async def test_leaving_early_cancels_and_the_cleanup_is_over_before_the_scope_is_left() -> None:
    async with desk(count) as opened:
        async with opened.session.stream(count) as messages:
            async for _ in messages:
                break
        assert CLOSED == ["closed", "cleaned up"]
        assert (await opened.record()).outcome == "cancelled"


@pytest.mark.spec("K15")
async def test_a_handler_that_waits_is_cancelled_where_it_waits() -> None:
    async with desk(stuck) as opened:
        async with opened.session.stream(stuck) as messages:
            await anext(messages)
            await turns()
        assert CLOSED == ["cleaned up"]
        assert (await opened.record()).outcome == "cancelled"


@pytest.mark.spec("K13", "K15")
async def test_leaving_without_reading_anything_is_no_error() -> None:
    async with desk(count, silent) as opened:
        async with opened.session.stream(count):
            pass
        async with opened.session.stream(count):
            await turns()
        async with opened.session.stream(silent, 0):
            await turns()
        assert [record.outcome for record in await opened.records()] == ["cancelled", "cancelled", "succeeded"]
        assert CLOSED == ["closed", "cleaned up"]


@pytest.mark.spec("K15")
async def test_a_reader_that_fails_or_is_cancelled_leaves_too() -> None:
    async def loop(failure: BaseException) -> None:
        async with opened.session.stream(stuck) as messages:
            async for _ in messages:
                raise failure

    async with desk(stuck) as opened:
        with pytest.raises(ZeroDivisionError):
            await loop(ZeroDivisionError())
        reading = asyncio.create_task(read(opened.session.stream(stuck)))
        await turns()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert CLOSED == ["cleaned up"] * 2
        assert [record.outcome for record in await opened.records()] == ["cancelled"] * 2


@pytest.mark.spec("K15")
async def test_one_that_swallows_its_cancellation_finds_that_nobody_reads() -> None:
    async with desk(stubborn) as opened:
        async with asyncio.timeout(2), opened.session.stream(stubborn) as messages:
            await anext(messages)
            await anext(messages)
            await asyncio.sleep(0)
        assert (await opened.record()).outcome == "cancelled"


@pytest.mark.spec("K15")
async def test_one_that_will_not_end_is_abandoned_and_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runtime, "CLEANUP_SECONDS", 0.02)
    release = asyncio.Event()

    @tool
    async def deaf() -> AsyncIterator[Progress | Reply[int]]:
        """Hear nothing."""
        yield Progress(0.5)
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                CLOSED.append("swallowed")

    async with desk(deaf) as opened:
        async with asyncio.timeout(2), opened.session.stream(deaf) as messages:
            await anext(messages)
            await turns()
        assert "did not end within 0.02 s of its cancellation and is abandoned" in caplog.text
        release.set()
        await until(lambda: CLOSED == ["swallowed"])
        await turns()


async def test_a_stream_is_read_inside_its_scope() -> None:
    async with desk(count) as opened:
        stream = opened.session.stream(count)
        with pytest.raises(RuntimeError, match="enter the stream first"):
            await anext(stream)
        assert STARTED == []
        assert await opened.records() == []


async def test_a_stream_is_entered_once() -> None:
    async with desk(count) as opened:
        stream = opened.session.stream(count)
        assert len(await read(stream)) == 5
        with pytest.raises(RuntimeError, match="once"):
            await read(stream)
        assert len(await opened.records()) == 1


async def test_a_stream_that_is_over_stays_over() -> None:
    async with desk(count) as opened, opened.session.stream(count) as messages:
        assert len([message async for message in messages]) == 5
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await anext(messages)


async def test_a_second_reader_is_told_and_the_first_gets_everything() -> None:
    release = asyncio.Event()

    @tool(effect="read")
    async def later() -> AsyncIterator[Progress | Reply[int]]:
        """Wait, then emit."""
        await release.wait()
        yield Progress(0.5)
        yield Reply(1)

    async def rest(messages: Messages) -> list[Message]:
        return [message async for message in messages]

    async with desk(later) as opened, opened.session.stream(later) as messages:
        first = asyncio.create_task(rest(messages))
        await turns()
        with pytest.raises(RuntimeError, match="one reader"):
            await rest(messages)
        release.set()
        assert [message.kind for message in await first] == ["event", "reply"]


async def test_there_is_no_result_before_the_end_nor_of_what_was_cancelled() -> None:
    async with desk(count, stuck) as opened:
        stream = opened.session.stream(count)
        with pytest.raises(RuntimeError, match="not ended"):
            _ = stream.result
        async with stream as messages:
            await anext(messages)
            with pytest.raises(RuntimeError, match="not ended"):
                _ = stream.result
            async for _ in messages:
                pass
            assert stream.result.data == 4
        assert (stream.result.success, stream.result.record) == (True, stream.record)
        cancelled = opened.session.stream(stuck)
        async with cancelled:
            pass
        assert cancelled.result.error is not None
        assert (cancelled.result.success, cancelled.result.error.code) == (False, "cancelled")


async def test_the_result_of_a_failure_has_its_error() -> None:
    async with desk(count) as opened:
        stream = opened.session.stream(count, "x")  # pyright: ignore[reportArgumentType]
        (error,) = await read(stream)
        assert stream.result.error
        assert (stream.result.success, stream.result.data) == (False, None)
        assert stream.result.error.message == error.data["message"]


@pytest.mark.spec("K8", "K14")
async def test_many_streams_at_once(store: str) -> None:
    async with desk(count, store=store) as opened:
        streams = [opened.session.stream(count, 3) for _ in range(100)]
        results = await asyncio.gather(*(read(stream) for stream in streams))
        for stream, messages in zip(streams, results, strict=True):
            assert [message.kind for message in messages] == ["event"] * 3 + ["reply"]
            assert {message.meta.correlation for message in messages if message.meta} == {stream.correlation}
        records = await opened.records()
        assert {record.id for record in records} == {stream.record for stream in streams}
        assert [record.outcome for record in records] == ["succeeded"] * 100
