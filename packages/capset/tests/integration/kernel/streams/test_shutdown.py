"""A kernel that closes in the middle of it all: drained, then cancelled, and nothing without its outcome (K17)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import pytest

from capset import Message
from capset.kernel import kernel as kernel_module
from tests.helpers.kernel.streams.support import (
    DOORS,
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
from tests.helpers.kernel.support import desk, read, records_of, turns
from tests.waiting import until


@pytest.mark.spec("K15", "K17")
@pytest.mark.parametrize("stage", ["memory", "sqlite"], indirect=True)
async def test_in_the_middle_of_a_thousand_invocations(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_module, "DRAIN_SECONDS", 0.1)
    running, ended = set[int](), list[int]()

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for message in messages:
            number = message.data.to
            running.add(number)
            try:
                if number % 4 == 0:
                    await emit(Done(data=number))
                elif number % 4 == 1:
                    await asyncio.sleep(60)
                elif number % 4 == 2:
                    while True:
                        await emit(Step(data=number))
                else:
                    async with asyncio.TaskGroup() as group:
                        for _ in range(3):
                            group.create_task(emit(Step(data=number)))
                        await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0)
                running.discard(number)
                ended.append(number)

    called = processor(process)

    async def messages() -> AsyncGenerator[Message]:
        for number in range(1_200):
            yield sent(called, number)

    async with stage(called, closes=False) as opened:
        serving = opened.kernel.run(opened.session, messages(), limit=1_000)
        answers = await serving.__aenter__()
        await anext(answers)
        await until(lambda: len(running) >= 700)
        store = opened.kernel.store
    assert running == set()
    await serving.__aexit__(None, None, None)
    await store.open()
    records = [record for record in await records_of(store.audit) if record.tool == called.name]
    await store.close()
    assert len({record.id for record in records}) == len(records) >= len(ended) >= 700
    assert Counter(record.outcome for record in records).keys() == {"succeeded", "cancelled"}


@pytest.mark.spec("K17")
async def test_what_ends_in_time_is_not_cancelled(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_module, "DRAIN_SECONDS", 5)
    log = Log()
    called = counting("process", log, pause=0.02)
    async with stage(called, closes=False) as opened:
        stream = opened.session.stream(called, to=3)
        reading = asyncio.create_task(read(stream))
        await until(lambda: log.started)
    assert [message.kind for message in await reading] == ["event"] * 3 + ["reply"]


@pytest.mark.spec("K17")
async def test_closing_takes_no_new_messages_and_does_not_wait_for_them(stage: Stage) -> None:
    log, closing = Log(), asyncio.Event()
    called = counting("process", log, pause=0.02)

    async def messages() -> AsyncGenerator[Message]:
        yield sent(called, 3)
        await closing.wait()
        yield sent(called, 3)

    async with stage(called, closes=False) as opened:
        reading = asyncio.create_task(read(opened.kernel.run(opened.session, messages())))
        await until(lambda: log.started)
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 2, "what reads is not waited for"
    closing.set()
    assert [message.kind for message in await reading] == ["event"] * 3 + ["reply"]


@pytest.mark.spec("K15", "K17")
@pytest.mark.parametrize("door", DOORS)
async def test_who_reads_one_that_will_not_end_is_told_of_its_end(door: str, impatient: float) -> None:
    release, started = asyncio.Event(), asyncio.Event()

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for _ in messages:
            started.set()
            while not release.is_set():
                with suppress(asyncio.CancelledError):
                    await release.wait()

    called = processor(process)

    async def collect() -> list[Message]:
        async with through(door, opened, called) as messages:
            return [message async for message in messages]

    async with desk(called) as opened:
        reading = asyncio.create_task(collect())
        await started.wait()
    async with asyncio.timeout(2):
        assert codes(await reading) == ["cancelled"]
    release.set()
    await turns()


@pytest.mark.spec("K15", "K17")
@pytest.mark.parametrize("door", DOORS)
async def test_a_call_that_is_cancelled_before_its_first_step_is_on_record(stage: Stage, door: str) -> None:
    called = counting("process", Log())
    async with stage(called) as opened:
        session = opened.session
        for _ in range(3):
            match door:
                case "stream":
                    async with session.stream(called):
                        pass
                case "invoke":
                    async with session.invoke(sent(called)):
                        pass
                case "run":
                    async with opened.kernel.run(session, endless(called), limit=1):
                        await turns(1)  # it is read, and its call not begun
                case _:
                    async with session.open(called.type) as room:
                        await turns(1)
                        await room.send({"to": 1})
        assert await outcomes(opened) == ["cancelled"] * 3


async def endless(called: Any) -> AsyncGenerator[Message]:
    while True:
        yield sent(called)
