"""Processors that break one promise each, by the check that finds them, with what is said of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from pydantic import BaseModel

from capset import Context, Emit, Message, Tool, handles
from capset.schemas.schema import schema_of
from tests.helpers.testing.processor_suite.sound import Counted, CountUp, Done, counter, handling, processing

BROKEN: Final[dict[str, list[tuple[str, Tool[..., Any], tuple[str, ...]]]]] = {}


def broken(check: str, name: str, factory: Any, *problems: str, **options: Any) -> None:
    BROKEN.setdefault(check, []).append((name, counter(factory, **options), problems))


# it_says_what_it_is


class Mute(BaseModel):
    """Mute."""

    kind: Literal["event"] = "event"
    type: Literal["Count.Muted"] = "Count.Muted"


broken(
    "it_says_what_it_is", "terse", handles(handling), "the tool of at least three", "'Counts.'", description="Counts."
)
broken(
    "it_says_what_it_is",
    "mute",
    handles(handling),
    "its outbound 'Count.Muted' of at least three words; got 'Mute.'; write it as the docstring",
    outbound=Counted | Done | Mute,
)

# its_type_is_its_route

whole = counter(handles(handling))
assert whole.contract is not None
other = schema_of("another", Done, "validation")
BROKEN["its_type_is_its_route"] = [
    (
        "misled",
        replace(whole, contract=replace(whole.contract, type="Other")),
        ("expected its inbound to show the type 'Other'", "got ['Count.Up']", "make it with Tool.from_processor"),
    )
]

# each_call_gets_a_processor_of_its_own


class Shared:
    """One object for all calls."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    async def __call__(self, messages: AsyncIterator[CountUp], emit: Emit, ctx: Context) -> None:
        async for message in messages:
            await self.handle(message, emit, ctx)

    async def handle(self, message: CountUp, emit: Emit, ctx: Context) -> None:
        self.seen.append(message.data["to"])
        await emit(Done(data=len(self.seen)))


shared = Shared()
FRESH: Final = "each_call_gets_a_processor_of_its_own"
SHARING: Final = ("expected a fresh processor for each call; two calls share a Shared", "inside the factory")
broken(FRESH, "an object", lambda: shared, *SHARING)
broken(FRESH, "its method", handles(shared.handle), *SHARING)
broken(FRESH, "in a partial", handles(partial(Shared.handle, shared)), *SHARING)

# it_fails_in_words


async def throwing(message: CountUp, emit: Emit, ctx: Context) -> None:
    if message.data["to"] > 3:
        raise KeyError("four")
    await emit(Done(data=0))


broken("it_fails_in_words", "throwing", handles(throwing), "it raised KeyError('four')", "raise ToolError, or emit")

# every_emission_fits_its_outbound

FITS: Final = "every_emission_fits_its_outbound"


async def misnaming(message: CountUp, emit: Emit, ctx: Context) -> None:
    await emit(Message("event", "Count.Lost", 1))


async def mistyping(message: CountUp, emit: Emit, ctx: Context) -> None:
    await emit(Message("event", "Count.Reached", "one"))


async def chattering(message: CountUp, emit: Emit, ctx: Context) -> None:
    await emit(Done(data=1))
    await emit(Counted(data=2))


async def scribbling(message: CountUp, emit: Emit, ctx: Context) -> None:
    note: Any = "done"
    await emit(note)


HAS: Final = "only what its outbound has (event 'Count.Reached', reply 'Count.Up')"
broken(FITS, "misnaming", handles(misnaming), HAS, "kind='event', type='Count.Lost', data=1", "add what is missing")
broken(FITS, "mistyping", handles(mistyping), HAS, "data='one'", "does not fit its schema")
broken(FITS, "chattering", handles(chattering), HAS, "emitted something after its reply")
broken(FITS, "scribbling", handles(scribbling), HAS, "got str(", "which is not a message")

# it_waits_for_its_consumer

WAITS: Final = "it_waits_for_its_consumer"


async def careless(message: CountUp, emit: Emit, ctx: Context) -> None:
    emit(Done(data=1))  # pyright: ignore[reportUnusedCoroutine]  # that is what is wrong


async def hasty(message: CountUp, emit: Emit, ctx: Context) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number in range(90):
            tasks.create_task(emit(Counted(data=number)))


async def gathering(message: CountUp, emit: Emit, ctx: Context) -> None:
    await asyncio.gather(*(emit(Counted(data=number)) for number in range(90)))


broken(WAITS, "careless", handles(careless), "called emit without awaiting it (1 time)", "write await emit(…)")
broken(WAITS, "hasty", handles(hasty), "89 more of its emissions were under way after 0 were taken", "task group")
broken(WAITS, "gathering", handles(gathering), "87 more of its emissions were under way", "await each", buffer=2)

# leaving_ends_it

LEAVING: Final = "leaving_ends_it"


async def stubborn(message: CountUp, emit: Emit, ctx: Context) -> None:
    for number in range(3):
        try:
            await emit(Counted(data=number))
        except asyncio.CancelledError:
            await asyncio.sleep(1.5)
            return


async def littering(message: CountUp, emit: Emit, ctx: Context) -> None:
    KEPT.append(asyncio.get_running_loop().create_task(background()))
    await emit(Done(data=1))


async def background() -> None:
    await asyncio.Event().wait()


KEPT: Final[list[asyncio.Task[None]]] = []
broken(LEAVING, "stubborn", handles(stubborn), "expected it to end within 1 s; it took ", "let CancelledError")
broken(LEAVING, "littering", handles(littering), "no task of its own to be left; there are background", "TaskGroup")

# calls_leave_no_state_behind

STATE: Final = "calls_leave_no_state_behind"
CALLS: Final[list[int]] = []


async def alternating(message: CountUp, emit: Emit, ctx: Context) -> None:
    CALLS.append(1)
    if len(CALLS) % 2:
        await emit(Counted(data=1))


async def guessing(message: CountUp, emit: Emit, ctx: Context) -> None:
    for number in range(random.randrange(1, 60)):
        await emit(Counted(data=number))


broken(
    STATE, "a module's global", handles(alternating), "event Count.Reached", "nothing", "keep what lasts in ctx.state"
)
broken(STATE, "chance", handles(guessing), "got first event Count.Reached", "say is_repeatable=False")


# A factory that is none: whatever else is asked of it fails too.


async def asynchronous() -> Any:
    return processing()


def failing() -> Any:
    raise OSError("no disk")


def generating() -> Any:
    async def process(messages: AsyncIterator[CountUp], emit: Emit, ctx: Context) -> AsyncIterator[Done]:
        async for _ in messages:
            yield Done(data=1)

    return process


FACTORIES: Final = [
    (counter(asynchronous), "expected its factory to be a plain function; it is async def"),
    (counter(failing), "it raised OSError('no disk'); move code that can fail into the processor"),
    (counter(generating), "which yields; make the factory with yields(…)"),
    (counter(lambda: None), "to return async def process(messages, emit, ctx); got None"),
    (counter(lambda: Shared), "got <class"),
]
