"""A duplex stream: each message sent has one outcome, whatever the one processor does with it (K8, K15–K17)."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest

from capset import Message, Meta
from capset.errors import InternalError
from capset.kernel.streams.duplex import Duplex
from tests.helpers.kernel.streams.support import Done, Log, Stage, Step, codes, counting, made, outcomes, processor
from tests.helpers.kernel.support import Desk, turns
from tests.waiting import until


async def talk(opened: Desk, sent: list[int], *, type: str = "Work.Do") -> list[Message]:
    """Send some, finish, and read all that comes."""
    async with asyncio.timeout(60), opened.session.open(type) as room:
        sending = asyncio.create_task(send(room, sent))
        received = [message async for message in room]
        await sending
    return received


async def send(room: Duplex, sent: list[int]) -> None:
    for to in sent:
        await room.send({"to": to})
    room.finish()


@pytest.mark.spec("K7", "K8", "K10")
async def test_one_processor_serves_all_messages_in_order(stage: Stage) -> None:
    made_of: list[int] = []

    def factory() -> Any:
        made_of.append(1)
        return process

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        total = 0
        async for message in messages:
            total += message.data.to
            await emit(Step(data=message.data.to))
            await emit(Done(data=total))

    called = made(factory)
    async with stage(called) as opened:
        received = await talk(opened, [1, 2, 3])
        assert [(message.kind, message.data) for message in received if message.kind == "reply"] == [
            ("reply", n) for n in (1, 3, 6)
        ]
        assert [message.kind for message in received] == ["event", "reply"] * 3
        assert made_of == [1]
        assert await outcomes(opened) == ["succeeded"] * 3


@pytest.mark.spec("K8", "K10")
@pytest.mark.parametrize("after", [0, 1, 2])
async def test_one_that_returns_early_has_later_messages_refused(stage: Stage, after: int) -> None:
    async def process(messages: Any, emit: Any, ctx: object) -> None:
        for _ in range(after):
            await emit(Done(data=(await anext(messages)).data.to))

    called = processor(process)
    async with stage(called) as opened:
        received = await talk(opened, [0, 1, 2, 3])
        assert [message.data for message in received if message.kind == "reply"] == list(range(after))
        assert [(message.data["code"], message.data["status"]) for message in received if message.kind == "error"] == [
            ("stream_ended", 409)
        ] * (4 - after)
        assert await outcomes(opened) == ["succeeded"] * after + ["failed"] * (4 - after)


@pytest.mark.spec("K10", "K13")
async def test_one_that_raises_in_the_middle(stage: Stage) -> None:
    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for message in messages:
            await emit(Done(data=1 // (1 - message.data.to)))

    called = processor(process)
    async with stage(called) as opened:
        received = await talk(opened, [0, 1, 0])
        assert [message.kind for message in received] == ["reply", "error", "error"]
        assert codes(received) == ["internal_error", "stream_ended"]
        assert await outcomes(opened) == ["succeeded", "failed", "failed"]


@pytest.mark.spec("K9", "K10")
@pytest.mark.parametrize("swallows", [False, True])
async def test_one_that_replies_twice(stage: Stage, swallows: bool) -> None:
    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for message in messages:
            await emit(Done(data=message.data.to))
            if message.data.to == 1:
                with suppress(InternalError if swallows else KeyError):
                    await emit(Done(data=2))

    called = processor(process)
    async with stage(called) as opened:
        received = await talk(opened, [0, 1, 0])
        assert [message.kind for message in received] == ["reply", "error", "reply" if swallows else "error"]
        assert codes(received)[0] == "invalid_output"


@pytest.mark.spec("K10", "K16")
async def test_a_deadline_of_one_message(stage: Stage) -> None:
    ended: list[str] = []

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for message in messages:
            try:
                await asyncio.sleep(60 if message.data.to else 0)
                await emit(Done(data=message.data.to))
            finally:
                ended.append("clean")

    called = processor(process)
    async with stage(called) as opened:
        async with asyncio.timeout(60), opened.session.open("Work.Do") as room:
            await room.send({"to": 0})
            assert (await anext(room)).kind == "reply"
            until_then = Meta("in", "2026-01-01T00:00:00.000000Z", "thread", deadline=time.time() + 1)
            await room.send(message=Message("command", "Work.Do", {"to": 1}, until_then))
            first = await anext(room)
            assert ended == ["clean", "clean"]
            await room.send({"to": 0})
            assert codes([first, await anext(room)]) == ["deadline_exceeded", "stream_ended"]
        assert await outcomes(opened) == ["succeeded", "timed_out", "failed"]


@pytest.mark.spec("K15", "K17")
@pytest.mark.parametrize("pulls", [False, True])
async def test_leaving_ends_the_processor_and_all_that_was_sent_is_on_record(stage: Stage, pulls: bool) -> None:
    began, ended = list[str](), list[str]()

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        try:
            began.append("began")
            if pulls:
                await anext(messages)
            await asyncio.sleep(60)
        finally:
            ended.append("clean")

    called = processor(process)
    async with stage(called) as opened:
        async with opened.session.open("Work.Do") as room:
            sending = [asyncio.create_task(room.send({"to": number})) for number in range(2)]
            await until(lambda: began)
            await turns()
        assert ended == ["clean"]
        assert await outcomes(opened) == ["cancelled"] * 2  # the second was sent, and not taken
        await asyncio.wait(sending)


@pytest.mark.spec("K15", "K17")
@pytest.mark.parametrize("idle", [False, True])
async def test_what_was_handed_over_in_the_moment_of_leaving_is_on_record(stage: Stage, idle: bool) -> None:
    log = Log()
    called = counting("process", log)
    async with stage(called) as opened:
        async with opened.session.open("Work.Do") as room:
            if idle:  # the processor waits for its next message, and whoever gives it too
                await room.send({"to": 0})
                assert (await anext(room)).kind == "reply"
                await turns()
            else:
                await turns()
            await room.send({"to": 9})
        assert await outcomes(opened) == [*["succeeded"] * idle, "cancelled"]


@pytest.mark.spec("K15")
async def test_an_idle_room_is_left_at_once(stage: Stage) -> None:
    called = counting("process", Log())
    async with stage(called) as opened:
        began = asyncio.get_running_loop().time()
        async with opened.session.open("Work.Do") as room:
            await room.send({"to": 0})
            assert (await anext(room)).kind == "reply"
            await turns()
        assert asyncio.get_running_loop().time() - began < 2
        with pytest.raises(RuntimeError, match="inside of"):
            await room.send({"to": 0})
        assert [message async for message in room] == []


@pytest.mark.spec("K10", "K13")
async def test_a_task_that_is_left_behind_does_not_speak_for_the_next_message(stage: Stage) -> None:
    tasks: list[asyncio.Task[None]] = []
    late = asyncio.Event()

    async def outlive(emit: Any) -> None:
        await late.wait()
        await emit(Step(data=666))

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for message in messages:
            if message.data.to == 0:
                tasks.append(asyncio.create_task(outlive(emit)))
            else:
                late.set()
                await turns()
                await asyncio.create_task(emit(Step(data=1)))  # its own children do
            await emit(Done(data=message.data.to))

    called = processor(process)
    async with stage(called) as opened:
        received = await talk(opened, [0, 1])
        assert [(message.kind, message.data) for message in received] == [("reply", 0), ("event", 1), ("reply", 1)]
        assert isinstance(tasks[0].exception(), InternalError)
        assert await outcomes(opened) == ["succeeded"] * 2


@pytest.mark.spec("K10")
async def test_between_two_messages_there_is_nothing_to_emit_for(stage: Stage) -> None:
    refused: list[Exception] = []

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        while True:
            try:
                async with asyncio.timeout(0.05):
                    message = await anext(messages)
            except TimeoutError:
                try:
                    await emit(Step(data=666))
                except InternalError as error:
                    refused.append(error)
            except StopAsyncIteration:
                return
            else:
                await emit(Done(data=message.data.to))

    called = processor(process)
    async with stage(called) as opened, asyncio.timeout(60), opened.session.open("Work.Do") as room:
        await room.send({"to": 1})
        assert (await anext(room)).data == 1
        await until(lambda: refused)
        await room.send({"to": 2})
        room.finish()
        assert [message.data async for message in room] == [2]


@pytest.mark.spec("K10", "K15")
@pytest.mark.parametrize("swallows", [False, True])
async def test_one_that_lingers_after_its_reply_is_ended(
    stage: Stage, swallows: bool, impatient: float, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for message in messages:
            await emit(Done(data=message.data.to))
            while not release.is_set():
                with suppress(asyncio.CancelledError if swallows else KeyError):
                    await release.wait()

    called = processor(process)
    async with stage(called) as opened:
        try:
            received = await talk(opened, [1, 2])
        finally:
            release.set()
        assert [message.kind for message in received] == ["reply", "error"]
        assert codes(received) == ["stream_ended"]
        assert "did not return within" in caplog.text
        assert opened.kernel.abandoned == swallows
        await until(lambda: not opened.session._context.runtime._stopping)


@pytest.mark.spec("K8")
async def test_a_message_to_another_tool_does_not_get_to_this_processor(stage: Stage) -> None:
    trace: list[Any] = []

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for message in messages:
            trace.append(message.type)
            await emit(Done(data=1))

    called, other = processor(process), processor(process, type="Work.Other")
    async with stage(called, other) as opened:
        async with asyncio.timeout(60), opened.session.open("Work.Do") as room:
            for named in ("Work.Do", "Work.Other", "kit.Work_Do", "Work.None"):
                await room.send(message=Message("command", named, {"to": 1}))
                trace.append(await anext(room))
            room.finish()
        assert [entry if isinstance(entry, str) else entry.kind for entry in trace] == [
            *("Work.Do", "reply"),
            "error",
            *("Work.Do", "reply"),
            "error",
        ]
        assert codes([entry for entry in trace if not isinstance(entry, str)]) == ["invalid_arguments", "not_found"]
        assert len(await opened.records(tool="Work_Other")) == 1


@pytest.mark.spec("K8", "K17")
@pytest.mark.usefixtures("impatient")
async def test_nothing_can_be_sent_once_the_kernel_has_closed(stage: Stage) -> None:
    called = counting("process", Log())
    async with stage(called, closes=False) as opened:
        room = await opened.session.open("Work.Do").__aenter__()
    async with asyncio.timeout(2):
        with pytest.raises(RuntimeError, match="has ended"):
            await room.send({"to": 1})
        assert [message async for message in room] == []
        await room.__aexit__(None, None, None)


async def test_a_room_is_entered_once_and_read_inside(stage: Stage) -> None:
    called = counting("process", Log())
    async with stage(called) as opened:
        room = opened.session.open("Work.Do")
        with pytest.raises(RuntimeError, match="enter the stream first"):
            await anext(room)
        with pytest.raises(RuntimeError, match="inside of"):
            await room.send({"to": 1})
        async with room:
            with pytest.raises(RuntimeError, match="once"):
                await room.__aenter__()
