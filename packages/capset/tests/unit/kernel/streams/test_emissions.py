"""What is emitted is held to the contract, and only while its call lasts (K9, K10)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from capset import Message, Tool, handles
from capset.errors import InternalError, InvalidOutput
from tests.helpers.kernel.streams.support import (
    DOORS,
    Done,
    Log,
    Stage,
    Step,
    Wanted,
    ask,
    codes,
    counting,
    outcomes,
    processor,
    through,
)
from tests.helpers.kernel.support import turns

NONSENSE = [
    None,
    7,
    "text",
    Wanted(),
    Message("event", "Work.Other", 1),
    Message("event", "Work.Step", "one"),
    Message("event", ["Work.Step"], 1),  # pyright: ignore[reportArgumentType]
    Message("reply", ["Work.Done"], 1),  # pyright: ignore[reportArgumentType]
    Message("reply", "Work.Step", 1),
    Message("reply", "Work.Done", "one"),
    Message("command", "Work.Do", {}),
    Message("error", "Work.Do", {}),
    Message("error", "Work.Do", {"message": "bad", "status": 200}),
    Message("error", "Work.Do", {"message": "bad", "fields": [{"path": 7, "expected": "text"}]}),
    Message("error", "Work.Do", {"message": "bad", "fields": 7}),
    Step.model_construct(data=object()),
    Step(data=10**5000),
]


@pytest.mark.spec("K9", "K10")
@pytest.mark.parametrize("swallows", [False, True])
@pytest.mark.parametrize("emission", NONSENSE)
async def test_an_emission_of_the_wrong_type_ends_the_call(stage: Stage, emission: Any, swallows: bool) -> None:
    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for _ in messages:
            await emit(Step(data=1))
            try:
                await emit(emission)
            except Exception:
                if not swallows:
                    raise
                with suppress(InternalError):
                    await emit(Done(data=2))
                raise TimeoutError from None

    called = processor(process)
    async with stage(called) as opened:
        for door in DOORS:
            async with through(door, opened, called) as messages:
                received = [message async for message in messages]
            assert [message.kind for message in received] == ["event", "error"]
            assert codes(received) == ["invalid_output"]
        assert await outcomes(opened) == ["failed"] * len(DOORS)


class Stop(BaseModel):
    """Stop it."""

    kind: Literal["command"] = "command"
    type: Literal["Work.Stop"] = "Work.Stop"


class Wider(Wanted):
    of: int = 0


class Widened(BaseModel):
    """All of them, and of how many."""

    kind: Literal["reply"] = "reply"
    type: Literal["Work.Widened"] = "Work.Widened"
    data: Wider


class Plain(BaseModel):
    """All of them."""

    kind: Literal["reply"] = "reply"
    type: Literal["Work.Plain"] = "Work.Plain"
    data: Wanted


@pytest.mark.spec("K9")
@pytest.mark.parametrize(
    "emission", [Message("reply", "Work.Plain", {"to": 3}), Message("reply", "Work.Plain", Wanted(to=3))]
)
async def test_one_of_several_replies_has_the_shape_of_its_own_type(stage: Stage, emission: Message) -> None:
    async def handle(message: Any, emit: Any, ctx: object) -> None:
        await emit(emission)

    called = Tool.from_processor(
        inbound=Stop, outbound=Widened | Plain, factory=handles(handle), description="Reply in one of two ways."
    )
    async with stage(called) as opened, opened.session.stream(called) as messages:
        (reply,) = [message async for message in messages]
        assert (reply.type, reply.data) == ("Work.Plain", {"to": 3})


@pytest.mark.spec("K9")
async def test_one_of_several_replies_that_does_not_fit_is_refused_where_it_is_emitted(stage: Stage) -> None:
    error_messages: list[str] = []

    async def handle(message: Any, emit: Any, ctx: object) -> None:
        try:
            await emit(Message("reply", "Work.Plain", {"to": "three"}))
        except InvalidOutput as error:
            error_messages.append(error.message)
            raise

    called = Tool.from_processor(
        inbound=Stop, outbound=Widened | Plain, factory=handles(handle), description="Reply in one of two ways."
    )
    async with stage(called) as opened, opened.session.stream(called) as messages:
        (error,) = [message async for message in messages]
        assert (error.kind, error.data["code"]) == ("error", "invalid_output")
    assert error_messages == [f"The tool {called.name!r} emitted a 'Work.Plain' that does not fit its schema."]


@pytest.mark.spec("K2", "K10")
@pytest.mark.parametrize("door", DOORS)
async def test_an_emitted_error_is_told_whole(stage: Stage, door: str) -> None:
    fields = [{"path": "to", "expected": "an even number", "did_you_mean": "two"}]

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for _ in messages:
            payload = {"message": "Odd.", "code": "odd", "status": 409, "retryable": True, "fields": fields}
            await emit(Message("error", "Work.Do", payload))

    called = processor(process)
    async with stage(called) as opened:
        async with through(door, opened, called) as messages:
            (error,) = [message async for message in messages]
        details = {key: error.data[key] for key in ("message", "code", "status", "fields")}
        assert details == {"message": "Odd.", "code": "odd", "status": 409, "fields": fields}
        assert not error.data["retryable"], "it may have had its effects"


@pytest.mark.spec("K9", "K10", "K13")
@pytest.mark.parametrize("door", DOORS)
async def test_violations_by_many_children_are_one_error(stage: Stage, door: str) -> None:
    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for _ in messages:
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    group.create_task(emit(Message("event", "Work.Nonsense", number)))

    called = processor(process)
    async with stage(called) as opened:
        async with through(door, opened, called) as messages:
            received = [message async for message in messages]
        assert [message.kind for message in received] == ["error"]
        assert codes(received) == ["invalid_output"]
        assert await outcomes(opened) == ["failed"]


@pytest.mark.spec("K10", "K15")
@pytest.mark.parametrize("door", DOORS)
async def test_one_that_swallows_violations_forever_is_ended(stage: Stage, door: str, impatient: float) -> None:
    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for _ in messages:
            await emit(Done(data=1))
            while True:
                with suppress(InternalError):
                    await emit(Step(data=2))

    called = processor(process)
    async with stage(called) as opened, asyncio.timeout(60), through(door, opened, called) as messages:
        assert codes([message async for message in messages]) == ["invalid_output"]


@pytest.mark.spec("K10", "K13")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("replies", [False, True])
async def test_a_task_that_outlives_its_processor_reaches_nobody(
    stage: Stage, door: str, replies: bool, impatient: float
) -> None:
    tasks, floods = list[asyncio.Task[None]](), list[asyncio.Task[None]]()
    late = asyncio.Event()

    async def outlive(emit: Any) -> None:
        await late.wait()
        await emit(Step(data=666))

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for message in messages:
            tasks.append(asyncio.create_task(outlive(emit)))
            floods.append(asyncio.create_task(flood(emit)))
            await turns(5)
            if replies:
                await emit(Done(data=message.data.to))

    async def flood(emit: Any) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(emit(Step(data=1)))

    called, other = processor(process), counting("process", Log(), type="Work.Next")
    async with stage(called, other) as opened:
        async with through(door, opened, called) as messages:
            await turns(50)
            received = [message async for message in messages]
        assert [message.kind for message in received][-1] == ("reply" if replies else "event")
        late.set()
        _, pending = await asyncio.wait([*tasks, *floods], timeout=5)
        assert not pending
        assert isinstance(tasks[0].exception(), InvalidOutput)
        assert len(await ask(opened, other)) == 5
        await asyncio.sleep(3 * impatient)  # nor does it end whoever called, later on
        assert await outcomes(opened) == ["succeeded", "succeeded"]
