"""A call as a stream: in order, at the reader's pace, and over when the reader leaves (spec 3, K8–K15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from capset import Progress, Reply, tool
from capset.errors import NoOutcome
from tests.helpers.kernel.support import desk, read, turns

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
    yield Progress(0.0)
    await asyncio.get_running_loop().create_future()


@pytest.mark.spec("K10", "K11")
async def test_messages_come_in_order_and_are_stamped() -> None:
    async with desk(count) as opened:
        stream = opened.session.stream(count)
        messages = await read(stream)
        *events, reply = messages
        assert [(event.kind, event.type, event.data["message"]) for event in events] == [
            ("event", "progress", str(number)) for number in range(4)
        ]
        assert (reply.kind, reply.type, reply.data) == ("reply", "count", 4)
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


@pytest.mark.spec("K13", "K15")
@pytest.mark.parametrize("reads", [False, True])
async def test_leaving_early_is_no_error_and_the_cleanup_is_over_before_the_scope_is_left(reads: bool) -> None:
    async with desk(count, silent) as opened:
        async with opened.session.stream(count):
            pass
        async with opened.session.stream(count) as messages:
            await turns()
            if reads:
                await anext(messages)
        assert CLOSED == ["closed", "cleaned up"]
        async with opened.session.stream(silent, 0):
            await turns()
        assert [record.outcome for record in await opened.records()] == ["cancelled", "cancelled", "succeeded"]


async def test_a_stream_is_read_inside_its_scope() -> None:
    async with desk(count) as opened:
        stream = opened.session.stream(count)
        with pytest.raises(RuntimeError, match="enter the stream first"):
            await anext(stream)
        assert STARTED == []
        assert await opened.records() == []


async def test_a_stream_is_entered_once_and_once_it_is_over_stays_over() -> None:
    async with desk(count) as opened:
        async with opened.session.stream(count) as stream:
            assert len([message async for message in stream]) == 5
            for _ in range(2):
                with pytest.raises(StopAsyncIteration):
                    await anext(stream)
        with pytest.raises(RuntimeError, match="once"):
            await read(stream)
        assert len(await opened.records()) == 1


async def test_a_stream_has_its_result_once_it_has_ended() -> None:
    async with desk(count, stuck) as opened:
        stream = opened.session.stream(count)
        with pytest.raises(RuntimeError, match="not ended"):
            _ = stream.result
        async with stream as messages:
            await anext(messages)
            with pytest.raises(RuntimeError, match="not ended"):
                _ = stream.result
            assert len([message async for message in messages]) == 4
            assert stream.result.data == 4
        assert (stream.result.success, stream.result.record) == (True, stream.record)
        async with opened.session.stream(stuck) as cancelled:
            pass
        assert cancelled.result.error is not None
        assert (cancelled.result.success, cancelled.result.error.code) == (False, "cancelled")
        failed = opened.session.stream(count, "x")  # pyright: ignore[reportArgumentType]
        (error,) = await read(failed)
        assert failed.result.error is not None
        assert (failed.result.success, failed.result.data) == (False, None)
        assert failed.result.error.message == error.data["message"]


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
