"""A duplex stream: each message sent has one outcome, whatever the one processor does with it (K8, K15–K17)."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest

from capset import Message, Meta, handles
from capset.definitions.tools.definition import AnyTool
from capset.errors import InternalError
from capset.kernel.streams.duplex import Duplex
from tests.helpers.kernel.streams.support import Done, Log, Stage, Step, codes, counting, made, outcomes, processor
from tests.helpers.kernel.support import turns
from tests.waiting import until


async def talk(stage: Stage, called: AnyTool, sent: list[int]) -> tuple[list[Message], list[str | None]]:
    """Send some, finish, and read all that comes; return it, and how the calls ended."""
    async with stage(called) as opened:
        async with asyncio.timeout(60), opened.session.open("Work.Do") as room:
            sending = asyncio.create_task(send(room, sent))
            received = [message async for message in room]
            await sending
        return received, await outcomes(opened)


async def send(room: Duplex, sent: list[int]) -> None:
    for to in sent:
        await room.send({"to": to})
    room.finish()


async def exchange(room: Duplex, to: int) -> Message:
    await room.send({"to": to})
    return await anext(room)


@pytest.mark.spec("K7", "K8", "K10")
async def test_one_processor_serves_all_messages_in_order(stage: Stage) -> None:
    made_of: list[Any] = []

    def factory() -> Any:
        made_of.append(process)
        return process

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        total = 0
        async for message in messages:
            total += message.data.to
            await emit(Step(data=message.data.to))
            await emit(Done(data=total))

    received, ended = await talk(stage, made(factory), [1, 2, 3])
    assert [message.data for message in received if message.kind == "reply"] == [1, 3, 6]
    assert [message.kind for message in received] == ["event", "reply"] * 3
    assert (len(made_of), ended) == (1, ["succeeded"] * 3)


@pytest.mark.spec("K8", "K10")
@pytest.mark.parametrize("after", [0, 1, 2])
async def test_one_that_returns_early_has_later_messages_refused(stage: Stage, after: int) -> None:
    async def process(messages: Any, emit: Any, ctx: object) -> None:
        for _ in range(after):
            await emit(Done(data=(await anext(messages)).data.to))

    received, ended = await talk(stage, processor(process), [0, 1, 2, 3])
    assert [message.data for message in received if message.kind == "reply"] == list(range(after))
    errors = [message.data for message in received if message.kind == "error"]
    assert [(error["code"], error["status"]) for error in errors] == [("stream_ended", 409)] * (4 - after)
    assert ended == ["succeeded"] * after + ["failed"] * (4 - after)


async def divide(message: Any, emit: Any, ctx: object) -> None:
    await emit(Done(data=1 // (1 - message.data.to)))


async def repeat(message: Any, emit: Any, ctx: object) -> None:
    for _ in range(message.data.to + 1):
        await emit(Done(data=message.data.to))


async def repeat_and_swallow(message: Any, emit: Any, ctx: object) -> None:
    with suppress(InternalError):
        await repeat(message, emit, ctx)


@pytest.mark.spec("K9", "K10", "K13")
@pytest.mark.parametrize(
    ("handle", "kinds", "expected_codes"),
    [
        (divide, ["reply", "error", "error"], ["internal_error", "stream_ended"]),
        (repeat, ["reply", "error", "error"], ["invalid_output", "stream_ended"]),
        (repeat_and_swallow, ["reply", "error", "reply"], ["invalid_output"]),
    ],
)
async def test_one_that_raises_ends_and_one_that_replies_twice_fails_that_message(
    stage: Stage, handle: Any, kinds: list[str], expected_codes: list[str]
) -> None:
    received, ended = await talk(stage, made(handles(handle)), [0, 1, 0])
    assert ([message.kind for message in received], codes(received)) == (kinds, expected_codes)
    assert ended == ["succeeded" if kind == "reply" else "failed" for kind in kinds]


@pytest.mark.spec("K10", "K16")
async def test_a_deadline_of_one_message_ends_the_processor(stage: Stage) -> None:
    ended: list[str] = []

    async def handle(message: Any, emit: Any, ctx: object) -> None:
        try:
            await asyncio.sleep(60 if message.data.to else 0)
            await emit(Done(data=message.data.to))
        finally:
            ended.append("clean")

    called = made(handles(handle))
    async with stage(called) as opened:
        async with asyncio.timeout(60), opened.session.open("Work.Do") as room:
            assert (await exchange(room, 0)).kind == "reply"
            until_then = Meta("in", "2026-01-01T00:00:00.000000Z", "thread", deadline=time.time() + 1)
            await room.send(message=Message("command", "Work.Do", {"to": 1}, until_then))
            late = await anext(room)
            assert ended == ["clean", "clean"]
            assert codes([late, await exchange(room, 0)]) == ["deadline_exceeded", "stream_ended"]
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
                assert (await exchange(room, 0)).kind == "reply"
            await turns()
            await room.send({"to": 9})
        assert await outcomes(opened) == [*["succeeded"] * idle, "cancelled"]


@pytest.mark.spec("K15")
async def test_a_room_is_entered_once_and_used_inside_and_left_at_once_where_it_is_idle(stage: Stage) -> None:
    called = counting("process", Log())
    async with stage(called) as opened:
        room = opened.session.open("Work.Do")
        with pytest.raises(RuntimeError, match="enter the stream first"):
            await anext(room)
        with pytest.raises(RuntimeError, match="inside of"):
            await room.send({"to": 0})
        began = asyncio.get_running_loop().time()
        async with room:
            with pytest.raises(RuntimeError, match="once"):
                await room.__aenter__()
            assert (await exchange(room, 0)).kind == "reply"
            await turns()
        assert asyncio.get_running_loop().time() - began < 2
        with pytest.raises(RuntimeError, match="inside of"):
            await room.send({"to": 0})
        assert [message async for message in room] == []


@pytest.mark.spec("K10", "K13")
async def test_a_task_that_is_left_behind_does_not_speak_for_the_next_message(stage: Stage) -> None:
    tasks, late = list[asyncio.Task[None]](), asyncio.Event()

    async def outlive(emit: Any) -> None:
        await late.wait()
        await emit(Step(data=666))

    async def handle(message: Any, emit: Any, ctx: object) -> None:
        if message.data.to == 0:
            tasks.append(asyncio.create_task(outlive(emit)))
        else:
            late.set()
            await turns()
            await asyncio.create_task(emit(Step(data=1)))  # its own children do
        await emit(Done(data=message.data.to))

    received, ended = await talk(stage, made(handles(handle)), [0, 1])
    assert [(message.kind, message.data) for message in received] == [("reply", 0), ("event", 1), ("reply", 1)]
    assert isinstance(tasks[0].exception(), InternalError)
    assert ended == ["succeeded"] * 2


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
        assert (await exchange(room, 1)).data == 1
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

    async def handle(message: Any, emit: Any, ctx: object) -> None:
        await emit(Done(data=message.data.to))
        while not release.is_set():
            with suppress(asyncio.CancelledError if swallows else KeyError):
                await release.wait()

    called = made(handles(handle))
    async with stage(called) as opened:
        async with asyncio.timeout(60), opened.session.open("Work.Do") as room:
            sending = asyncio.create_task(send(room, [1, 2]))
            received = [message async for message in room]
            await sending
        release.set()
        assert [message.kind for message in received] == ["reply", "error"]
        assert codes(received) == ["stream_ended"]
        assert "did not return within" in caplog.text
        assert opened.kernel.abandoned == swallows
        await until(lambda: not opened.session._context.runtime._stopping)


@pytest.mark.spec("K8")
async def test_a_message_to_another_tool_does_not_get_to_this_processor(stage: Stage) -> None:
    types: list[str] = []

    async def handle(message: Any, emit: Any, ctx: object) -> None:
        types.append(message.type)
        await emit(Done(data=1))

    called, other = made(handles(handle)), made(handles(handle), "Work.Other")
    async with stage(called, other) as opened:
        answers: list[Message] = []
        async with asyncio.timeout(60), opened.session.open("Work.Do") as room:
            for named in ("Work.Do", "Work.Other", "kit.Work_Do", "Work.None"):
                await room.send(message=Message("command", named, {"to": 1}))
                answers.append(await anext(room))
            room.finish()
        assert types == ["Work.Do", "Work.Do"]
        assert [answer.kind for answer in answers] == ["reply", "error"] * 2
        assert codes(answers) == ["invalid_arguments", "not_found"]
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
