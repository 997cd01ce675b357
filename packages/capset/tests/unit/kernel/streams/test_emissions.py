"""What is emitted is held to the contract, and only while its call lasts (K9, K10)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Literal

import pytest
from pydantic import BaseModel, create_model

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
    made,
    outcomes,
    processor,
    through,
)
from tests.helpers.kernel.support import turns

NONSENSE = [
    *(None, 7, "text", Wanted()),
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
    async def handle(message: Any, emit: Any, ctx: object) -> None:
        await emit(Step(data=1))
        try:
            await emit(emission)
        except Exception:
            if not swallows:
                raise
            with suppress(InternalError):
                await emit(Done(data=2))
            raise TimeoutError from None

    called = made(handles(handle))
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


def reply(name: str, data: type[BaseModel]) -> type[BaseModel]:
    literals: Any = {word: (Literal[text], text) for word, text in (("kind", "reply"), ("type", f"Work.{name}"))}
    return create_model(name, __doc__=f"{name}.", **literals, data=(data, ...))


@pytest.mark.spec("K9")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"to": 3}, ("reply", {"to": 3})),
        (Wanted(to=3), ("reply", {"to": 3})),
        ({"to": "three"}, ("error", "The tool 'Work_Stop' emitted a 'Work.Plain' that does not fit its schema.")),
    ],
)
async def test_one_of_several_replies_has_the_shape_of_its_own_type(stage: Stage, data: Any, expected: object) -> None:
    async def handle(message: Any, emit: Any, ctx: object) -> None:
        await emit(Message("reply", "Work.Plain", data))

    outbound = reply("Widened", Wider) | reply("Plain", Wanted)
    called = Tool.from_processor(inbound=Stop, outbound=outbound, factory=handles(handle), description="Reply.")
    async with stage(called) as opened, opened.session.stream(called) as messages:
        (last,) = [message async for message in messages]
    assert (last.kind, last.data if last.kind == "reply" else last.data["message"]) == expected


@pytest.mark.spec("K2", "K10")
async def test_an_emitted_error_is_told_whole(stage: Stage, door: str) -> None:
    fields = [{"path": "to", "expected": "an even number", "did_you_mean": "two"}]
    payload = {"message": "Odd.", "code": "odd", "status": 409, "retryable": True, "fields": fields}

    async def handle(message: Any, emit: Any, ctx: object) -> None:
        await emit(Message("error", "Work.Do", payload))

    called = made(handles(handle))
    async with stage(called) as opened, through(door, opened, called) as messages:
        (error,) = [message async for message in messages]
    told = {key: error.data[key] for key in payload}
    assert told == {**payload, "retryable": False}, "it may have had its effects"


@pytest.mark.spec("K9", "K10", "K13")
async def test_violations_by_many_children_are_one_error(stage: Stage, door: str) -> None:
    async def handle(message: Any, emit: Any, ctx: object) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(emit(Message("event", "Work.Nonsense", number)))

    called = made(handles(handle))
    async with stage(called) as opened:
        async with through(door, opened, called) as messages:
            received = [message async for message in messages]
        assert [message.data["code"] for message in received] == codes(received) == ["invalid_output"]
        assert await outcomes(opened) == ["failed"]


@pytest.mark.spec("K10", "K15")
async def test_one_that_swallows_violations_forever_is_ended(stage: Stage, door: str, impatient: float) -> None:
    async def handle(message: Any, emit: Any, ctx: object) -> None:
        await emit(Done(data=1))
        while True:
            with suppress(InternalError):
                await emit(Step(data=2))

    called = made(handles(handle))
    async with stage(called) as opened, asyncio.timeout(60), through(door, opened, called) as messages:
        assert codes([message async for message in messages]) == ["invalid_output"]


@pytest.mark.spec("K10", "K13")
@pytest.mark.parametrize("replies", [False, True])
async def test_tasks_that_are_left_over_reach_nobody(stage: Stage, door: str, replies: bool, impatient: float) -> None:
    tasks, late = list[asyncio.Task[None]](), asyncio.Event()

    async def outlive(emit: Any) -> None:
        await late.wait()
        await emit(Step(data=666))

    async def flood(emit: Any) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(emit(Step(data=1)))

    async def process(messages: Any, emit: Any, ctx: object) -> None:
        async for message in messages:
            tasks.extend(asyncio.create_task(work(emit)) for work in (outlive, flood))
            await turns(5)
            if replies:
                await emit(Done(data=message.data.to))

    called, other = processor(process), counting("process", Log(), type="Work.Next")
    async with stage(called, other) as opened:
        async with through(door, opened, called) as messages:
            await turns(50)
            received = [message async for message in messages]
        assert received[-1].kind == ("reply" if replies else "event")
        late.set()
        _, pending = await asyncio.wait(tasks, timeout=5)
        assert not pending
        assert isinstance(tasks[0].exception(), InvalidOutput)
        assert len(await ask(opened, other)) == 5
        await asyncio.sleep(3 * impatient)  # nor does it end whoever called, later on
        assert await outcomes(opened) == ["succeeded", "succeeded"]
