"""Processors of every style that keep every promise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from capset import Capability, Context, Emit, Message, Resource, Tool, ToolError, handles, yields
from tests.waiting import moment


class To(TypedDict):
    to: Annotated[int, Field(ge=0, le=6, description="Up to where.")]


class CountUp(BaseModel):
    """Count up to a number, one by one."""

    kind: Literal["query"] = "query"
    type: Literal["Count.Up"] = "Count.Up"
    data: To


class Counted(BaseModel):
    """A number was reached."""

    kind: Literal["event"] = "event"
    type: Literal["Count.Reached"] = "Count.Reached"
    data: int


class Done(BaseModel):
    """The sum of all numbers."""

    kind: Literal["reply"] = "reply"
    type: Literal["Count.Up"] = "Count.Up"
    data: int


def counter(factory: Any, **options: Any) -> Tool[..., Any]:
    """Return a processor that counts, with something of its own."""
    arguments: dict[str, Any] = {
        "inbound": CountUp,
        "outbound": Counted | Done,
        "description": "Count up to a number, for tests.",
        **options,
    }
    return Tool.from_processor(factory=factory, **arguments)


def processing() -> Any:
    async def process(messages: AsyncIterator[CountUp], emit: Emit, ctx: Context) -> None:
        async for message in messages:
            total = 0
            for number in range(message.data["to"]):
                await emit(Counted(data=number))
                total += number
            await emit(Done(data=total))

    return process


async def handling(message: CountUp, emit: Emit, ctx: Context) -> None:
    try:
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(60):
            waiting = tasks.create_task(moment(0.01))
            for number in range(message.data["to"]):
                await emit(Message("event", "Count.Reached", number))
            await waiting
    finally:
        await asyncio.sleep(0)
    await emit(Done(data=message.data["to"]))


async def yielding(message: CountUp, ctx: Context) -> AsyncIterator[Counted | Done]:
    for number in range(message.data["to"]):
        yield Counted(data=number)
    yield Done(data=0)


class Talker:
    """A processor of its own for each call, with state."""

    def __init__(self) -> None:
        self.total = 0

    async def __call__(self, messages: AsyncIterator[CountUp], emit: Emit, ctx: Context) -> None:
        async for message in messages:
            self.total += message.data["to"]
            await emit(Done(data=self.total))


async def without_end(message: CountUp, emit: Emit, ctx: Context) -> None:
    number = 0
    while True:
        await emit(Counted(data=number))
        number += 1


async def idle(message: CountUp, emit: Emit, ctx: Context) -> None:
    await asyncio.sleep(60)


async def refusing(message: CountUp, emit: Emit, ctx: Context) -> None:
    if message.data["to"] % 2:
        raise ToolError("odd numbers are not for me", code="odd")
    await emit(Message("error", "Count.Up", {"message": "neither are even ones", "code": "even", "status": 409}))


class Anything(BaseModel):
    """Take whatever it is."""

    kind: Literal["command"] = "command"
    type: Literal["Take"] = "Take"
    data: list[int | str] | None = Field(description="Whatever it is.")


taken = Resource("taken", list[str], scope="session", default=list)


async def taking(message: Anything, emit: Emit, ctx: Context) -> None:
    await ctx.resource(taken).push(repr(message.data))


take = Tool.from_processor(
    inbound=Anything,
    outbound=[Counted],
    factory=handles(taking),
    description="Take anything and keep it.",
    name="take",
    permissions={"things:take"},
)
taker = Capability("taker", tools=[take], resources=[taken])

SOUND: Final[dict[str, Tool[..., Any]]] = {
    "process": counter(processing),
    "handles": counter(handles(handling)),
    "yields": counter(yields(yielding)),
    "an object each": counter(Talker),
    "with a buffer": counter(processing, buffer=3),
    "without end": counter(handles(without_end)),
    "refusing": counter(handles(refusing)),
}
idler: Final = counter(handles(idle))
