"""Processors in every form, every door to them, and a stage that compares what is there before and after."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, create_model

from capset import Message, Progress, Reply, tool
from capset.definitions.tools.definition import AnyTool, Tool
from capset.definitions.tools.processors import Factory, handles, yields
from tests.helpers.kernel.support import Desk, desk, rows_of, turns

FORMS = ("process", "handles", "yields", "function")
DOORS = ("stream", "invoke", "run", "open")


class Wanted(BaseModel):
    to: int = 4


class Step(BaseModel):
    """One more."""

    kind: Literal["event"] = "event"
    type: Literal["Work.Step"] = "Work.Step"
    data: int


class Done(BaseModel):
    """All of them."""

    kind: Literal["reply"] = "reply"
    type: Literal["Work.Done"] = "Work.Done"
    data: int


def made(factory: Factory, type: str = "Work.Do", **options: Any) -> AnyTool:
    """Return the tool of a processor of ``{"to": …}`` that emits ``Step`` and ``Done``."""
    literal: Any = Literal[type]
    inbound = create_model(
        "Do", __doc__="Do it.", kind=(Literal["command"], "command"), type=(literal, type), data=(Wanted, ...)
    )
    return Tool.from_processor(inbound=inbound, outbound=Step | Done, factory=factory, description="Work.", **options)


def processor(process: Any, **options: Any) -> AnyTool:
    """Return the tool of ``async def process(messages, emit, ctx)``."""
    return made(lambda: process, **options)


@dataclass
class Log:
    """What the processors of a test have done."""

    started: list[int] = field(default_factory=list[int])
    ended: list[str] = field(default_factory=list[str])


def counting(form: str, log: Log, *, pause: float | None = None, **options: Any) -> AnyTool:
    """Return a tool that counts in one of the forms: it notes each emission, and its cleanup, which waits once."""

    async def process(messages: AsyncIterator[Any], emit: Any, ctx: object) -> None:
        async for message in messages:
            await handle(message, emit, ctx)

    async def handle(message: Any, emit: Any, ctx: object) -> None:
        try:
            for number in range(message.data.to):
                log.started.append(number)
                await emit(Step(data=number))
                if pause is not None:
                    await asyncio.sleep(pause)
            log.started.append(message.data.to)
            await emit(Done(data=message.data.to))
        finally:
            await asyncio.sleep(0)
            log.ended.append("clean")

    async def generate(message: Any, ctx: object) -> AsyncGenerator[BaseModel]:
        try:
            for number in range(message.data.to):
                log.started.append(number)
                yield Step(data=number)
                if pause is not None:
                    await asyncio.sleep(pause)
            log.started.append(message.data.to)
            yield Done(data=message.data.to)
        finally:
            await asyncio.sleep(0)
            log.ended.append("clean")

    async def function(to: int = 4) -> AsyncIterator[Progress | Reply[int]]:
        """Count."""
        try:
            for number in range(to):
                log.started.append(number)
                yield Progress(0.5, str(number))
                if pause is not None:
                    await asyncio.sleep(pause)
            log.started.append(to)
            yield Reply(to)
        finally:
            await asyncio.sleep(0)
            log.ended.append("clean")

    if form == "function":
        return tool(name="work", **options)(function)
    factories = {"process": lambda: process, "handles": handles(handle), "yields": yields(generate)}
    return made(factories[form], **options)


def numbers(messages: Iterable[Message]) -> list[int]:
    """Return what ``counting`` said."""
    return [int(message.data["message"]) if isinstance(message.data, dict) else message.data for message in messages]


def codes(messages: Iterable[Message]) -> list[str]:
    """Return the codes of the errors."""
    return [message.data["code"] for message in messages if message.kind == "error"]


def sent(called: AnyTool, to: int = 4, **meta: Any) -> Message:
    return Message("command", called.type, {"to": to}, **meta)


async def given(messages: Iterable[Message]) -> AsyncGenerator[Message]:
    for message in messages:
        yield message


@asynccontextmanager
async def through(door: str, opened: Desk, called: AnyTool, to: int = 4) -> AsyncGenerator[AsyncIterable[Message]]:
    """Call a tool through one of the doors, and give its messages."""
    session, message = opened.session, sent(called, to)
    match door:
        case "stream":
            async with session.stream(called, to=to) as messages:
                yield messages
        case "invoke":
            async with session.invoke(message) as messages:
                yield messages
        case "run":
            async with opened.kernel.run(session, given([message])) as messages:
                yield messages
        case _:
            async with session.open(called.type) as room:
                await room.send({"to": to})
                room.finish()
                yield room


async def ask(opened: Desk, called: AnyTool, to: int = 4) -> list[Message]:
    """Invoke a tool and read all that it says."""
    async with through("invoke", opened, called, to) as messages:
        return [message async for message in messages]


@dataclass(frozen=True)
class Held:
    """What a process holds: its tasks, its open files."""

    tasks: int
    files: int

    @classmethod
    def now(cls) -> Held:
        return cls(len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir())))


_WARM: set[tuple[asyncio.AbstractEventLoop, bool]] = set()
"""The event loops that have had a store of this kind: the first takes threads and files that stay."""


@dataclass(frozen=True)
class Stage:
    """Opens desks, warmed up, and fails a test that leaves more behind than was there."""

    path: Path | None

    @asynccontextmanager
    async def __call__(self, *tools: AnyTool, closes: bool = True) -> AsyncGenerator[Desk]:
        """Give a desk with these tools; where the test ``closes`` all that it opens, all is gone before the kernel."""
        warm = counting("process", Log(), type="Warm.Up")
        store = "memory://" if self.path is None else f"sqlite:///{self.path}"
        kind = asyncio.get_running_loop(), self.path is None
        if kind not in _WARM:
            _WARM.add(kind)
            async with desk(warm, store=store) as opened:
                await warmed(opened, warm)
        before = Held.now()
        async with desk(*tools, warm, store=store) as opened:
            await warmed(opened, warm)
            inside = Held.now()
            yield opened
            if closes:
                await turns()
                assert Held.now() == inside
                assert opened.session._context.runtime.calls == 0
            await opened.kernel.audit.flush()
            audit: Any = opened.kernel.audit
        await turns()
        assert Held.now() == before
        rows: list[Any] = audit._rows if self.path is None else rows_of(self.path)
        keys = [(row["id"], row["phase"]) if self.path is None else row[:2] for row in rows]
        assert Counter(keys).most_common(1)[0][1] == 1
        intents, outcomes = (
            {call_id for call_id, phase in keys if phase == expected_phase} for expected_phase in ("intent", "outcome")
        )
        assert intents <= outcomes


async def warmed(opened: Desk, warm: AnyTool) -> None:
    for door in DOORS:
        async with through(door, opened, warm, 1) as messages:
            assert [message.kind async for message in messages] == ["event", "reply"]
    assert await opened.session.call(warm, to=1) == 1
    await opened.records()


async def outcomes(opened: Desk, *tools: AnyTool) -> list[str | None]:
    """Return how the calls ended, without those of the warming up."""
    names = {tool.name for tool in tools} or None
    records = await opened.records()
    return [
        record.outcome for record in records if record.tool != "Warm_Up" and (names is None or record.tool in names)
    ]
