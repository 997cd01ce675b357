"""What the kernel writes on everything that is emitted (K11)."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from capset import Context, Message, Meta, handles
from tests.helpers.kernel.streams.support import Done, Log, Stage, counting, given, made, sent, through
from tests.helpers.kernel.support import read

pytestmark = pytest.mark.spec("K11")
META = Meta("in-1", "2026-01-01T00:00:00.000000Z", "thread-1", "before-1", traceparent="00-1-2-01")


def metas(messages: list[Message]) -> list[Meta]:
    stamps = [message.meta for message in messages if message.meta is not None]
    assert len(stamps) == len(messages)
    return stamps


@pytest.mark.parametrize("door", ["invoke", "run", "open"])
async def test_what_comes_of_a_message_says_so(stage: Stage, form: str, door: str) -> None:
    called = counting(form, Log())
    message = sent(called, 2, meta=META)
    async with stage(called) as opened:
        if door == "invoke":
            received = await read(opened.session.invoke(message))
        elif door == "run":
            async with opened.kernel.run(opened.session, given([message])) as answers:
                received = [answer async for answer in answers]
        else:
            async with opened.session.open(called.type) as room:
                await room.send(message=message)
                room.finish()
                received = [answer async for answer in room]
        stamps = metas(received)
        assert len(stamps) == len({stamp.id for stamp in stamps}) == len({*received}) == 3
        origins = {(stamp.correlation, stamp.causation, stamp.traceparent) for stamp in stamps}
        assert origins == {("thread-1", "in-1", "00-1-2-01")}
        times = [(stamp.timestamp, stamp.id) for stamp in stamps]
        assert times == sorted(times)
        record = await opened.record(tool=called.name)
        assert (record.correlation, record.causation) == ("thread-1", "in-1")


async def test_where_nothing_caused_a_call_it_is_its_own_cause(stage: Stage, door: str) -> None:
    called = counting("process", Log())
    async with stage(called) as opened:
        async with through(door, opened, called, 2) as messages:
            stamps = metas([message async for message in messages])
        record = await opened.record(tool=called.name)
        assert {stamp.causation for stamp in stamps} == {stamp.correlation for stamp in stamps} == {record.id}
        assert {stamp.traceparent for stamp in stamps} == {None}


async def test_a_refusal_is_stamped_too(stage: Stage) -> None:
    called = counting("process", Log())
    async with stage(called) as opened:
        for message in (Message("command", "Work.None", {}, META), Message("command", called.type, {"to": "x"}, META)):
            (stamp,) = metas(await read(opened.session.invoke(message)))
            assert (stamp.correlation, stamp.causation, stamp.traceparent) == ("thread-1", "in-1", "00-1-2-01")


async def test_a_message_that_is_copied_keeps_its_stamp(stage: Stage) -> None:
    called = counting("process", Log())
    async with stage(called) as opened:
        async with through("invoke", opened, called, 1) as messages:
            first = await anext(aiter(messages))
        assert deepcopy(first) == first == replace(first)
        assert replace(first, meta=None).meta is None


@pytest.mark.spec("K27")
async def test_a_processor_sees_the_id_of_each_message(stage: Stage) -> None:
    message_ids: list[str] = []

    async def handle(message: Any, emit: Any, ctx: Context) -> None:
        message_ids.append(ctx.message_id)
        await emit(Done(data=message.data.to))

    called = made(handles(handle))
    async with stage(called) as opened, asyncio.timeout(60):
        await read(opened.session.invoke(sent(called, 1, meta=META)))
        (single,) = metas(await read(opened.session.invoke(sent(called, 1))))
        assert message_ids == ["in-1", single.causation]
        async with opened.session.open(called.type) as room:
            for message_id in ("in-2", "in-3"):
                await room.send(message=sent(called, 1, meta=replace(META, id=message_id)))
                (answer,) = metas([await anext(room)])
                assert answer.causation == message_id
            room.finish()
        assert message_ids[2:] == ["in-2", "in-3"]
