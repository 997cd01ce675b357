"""A handler that swallows its expiry and goes on: its call ends all the same, once, and nobody hears of it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from capset import Progress, Reply, tool
from capset.definitions.tools.definition import AnyTool
from tests.helpers.kernel.streams.support import DOORS, Done, Stage, Step, codes, outcomes, processor, through
from tests.helpers.kernel.support import turns

pytestmark = pytest.mark.usefixtures("impatient")


class Stubborn:
    """Tools that go on until they are let go, whoever cancels them."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.is_cancelled = asyncio.Event()
        self.told: BaseException | None = None

    async def wait(self) -> None:
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.is_cancelled.set()

    def processor(self, **options: Any) -> AnyTool:
        async def process(messages: Any, emit: Any, ctx: object) -> None:
            async for _ in messages:
                await emit(Step(data=1))
                await self.wait()
                try:
                    await emit(Done(data=1))
                    await emit(Step(data=2))
                except BaseException as error:
                    self.told = error

        return processor(process, **options)

    def function(self, **options: Any) -> AnyTool:
        @tool(name="work", **options)
        async def work(to: int) -> AsyncIterator[Progress | Reply[int]]:
            """Work."""
            yield Progress(0.5)
            await self.wait()
            yield Reply(1)

        return work


@pytest.mark.spec("K15", "K16")
@pytest.mark.parametrize("form", ["processor", "function"])
@pytest.mark.parametrize("door", DOORS)
async def test_its_call_ends_with_504_once_the_bound_is_over(stage: Stage, door: str, form: str) -> None:
    stubborn = Stubborn()
    called = stubborn.processor(timeout=0.1) if form == "processor" else stubborn.function(timeout=0.1)
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


@pytest.mark.spec("K15", "K16")
@pytest.mark.parametrize("bound", ["timeout", "deadline"])
async def test_so_does_that_of_a_message_without_a_reader(stage: Stage, bound: str) -> None:
    stubborn = Stubborn()
    called = stubborn.function(timeout=0.1 if bound == "timeout" else None)
    async with stage(called) as opened:
        session = opened.session.options(timeout=0.1) if bound == "deadline" else opened.session
        async with asyncio.timeout(60):
            result = await session.try_message(session.message("work", {"to": 1}))
        assert result.error is not None
        assert result.error.code == "deadline_exceeded"
        assert await outcomes(opened) == ["timed_out"]
        stubborn.let_go.set()
        await turns(20)


@pytest.mark.spec("K15")
async def test_in_a_mixed_stream_the_others_go_on_and_its_place_is_free_again(stage: Stage) -> None:
    stubborn = Stubborn()
    called = stubborn.processor(timeout=0.1)
    async with stage(called) as opened:

        async def inbound() -> AsyncIterator[Any]:
            for _ in range(3):
                yield opened.session.message("Work_Do", {"to": 1})

        async with asyncio.timeout(60), opened.kernel.run(opened.session, inbound(), limit=1) as answers:
            received = [message async for message in answers]
        assert codes(received) == ["deadline_exceeded"] * 3
        assert opened.kernel.abandoned == 3
        stubborn.let_go.set()
        await turns(20)


@pytest.mark.spec("K16")
async def test_one_whose_consumer_made_it_wait_has_its_own_time_first(stage: Stage) -> None:
    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for _ in messages:
            for number in range(4):
                await emit(Step(data=number))
            await emit(Done(data=4))

    called = processor(process, timeout=0.15)
    async with stage(called) as opened:
        kinds: list[str] = []
        async with opened.session.stream(called, to=1) as messages:
            async for message in messages:
                kinds.append(message.kind)
                await asyncio.sleep(0.15)
        assert kinds == ["event"] * 4 + ["reply"]
        assert opened.kernel.abandoned == 0
