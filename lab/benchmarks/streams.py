"""What a stream of messages costs beside a plain async generator with the same two validations."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from capset import Agent, Context, Emit, Kernel, Message, Principal, Session, Tool, handles
from lab.benchmarks.row import Row

IN_STEP, AHEAD, RUN = 0.08, 0.25, 0.06
"""How much of the generator's rate a stream reaches: at buffer 0, at buffer 16, and with an invocation a message."""
FLAT = 1.1
"""How many times as much memory may be in use after many messages as after a hundredth of them."""
IDLE_MB = 200
"""For 10,000 open invocations that wait; for fewer, as much less."""


class Wanted(BaseModel):
    """How many."""

    count: int


class Count(BaseModel):
    """Count up to a number."""

    kind: Literal["query"] = "query"
    type: Literal["Count.Up"] = "Count.Up"
    data: Wanted


class Counted(BaseModel):
    """One more."""

    kind: Literal["event"] = "event"
    type: Literal["Count.One"] = "Count.One"
    data: int


class Done(BaseModel):
    """That was all."""

    kind: Literal["reply"] = "reply"
    type: Literal["Count.Done"] = "Count.Done"
    data: int


async def _count(message: Count, emit: Emit, ctx: Context) -> None:
    for number in range(message.data.count):
        await emit(Message("event", "Count.One", number))


async def _answer(message: Count, emit: Emit, ctx: Context) -> None:
    await emit(Message("reply", "Count.Done", message.data.count))


async def _wait(message: Count, emit: Emit, ctx: Context) -> None:
    await asyncio.get_running_loop().create_future()


def _tool(name: str, handle: Any, buffer: int = 0) -> Tool[..., Any]:
    return Tool.from_processor(
        inbound=Count, outbound=Counted | Done, factory=handles(handle), description="Count.", name=name, buffer=buffer
    )


def measure(*, quick: bool) -> list[Row]:
    """Return the rows of one long invocation, of many short ones, and of memory."""
    return asyncio.run(_measure(*((2_000, 1_000, 1_000) if quick else (1_000_000, 200_000, 10_000))))


async def _measure(events: int, invocations: int, idle: int) -> list[Row]:
    rows: list[Row] = []
    async with Kernel("memory://") as kernel:
        for name, buffer, target in (("buffer 16", 16, AHEAD), ("buffer 0", 0, IN_STEP)):
            async with kernel.open(_agent(_tool("count", _count, buffer)), principal=Principal("bench")) as session:
                bare, took = await _long(session, events)
                rows.append(_row(f"one invocation that emits {events:,} events, {name}", bare, took, events, target))
        async with kernel.open(_agent(_tool("answer", _answer)), principal=Principal("bench")) as session:
            bare, took = await _short(kernel, session, invocations)
            rows.append(_row(f"kernel.run, {invocations:,} invocations of one reply", bare, took, invocations, RUN))
        async with kernel.open(_agent(_tool("count", _count, 16)), principal=Principal("bench")) as session:
            rows.append(await _memory(session, events * 10))
        async with kernel.open(_agent(_tool("wait", _wait)), principal=Principal("bench")) as session:
            rows.append(await _idle(session, idle))
    return rows


def _agent(tool: Tool[..., Any]) -> Agent:
    return Agent("bench", tools=[tool])


async def _plain(session: Session, count: int) -> AsyncIterator[Message]:
    """Yield the messages of one invocation, with the validations of the kernel: of what comes, and of all that goes."""
    tool = next(iter(session.snapshot.installed.values())).tool
    assert tool.contract is not None
    check = tool.contract.events["Count.One"].check
    for number in range(tool.arguments.check({"count": count}).count):
        message = Message("event", "Count.One", number)
        check(message.data)
        yield message


async def _long(session: Session, events: int) -> tuple[float, float]:
    """Return the seconds of the generator and of the stream."""
    bare = await _timed(_plain(session, events), events)
    async with session.invoke(Message("query", "Count.Up", {"count": events})) as messages:
        return bare, await _timed(messages, events)


async def _short(kernel: Kernel, session: Session, count: int) -> tuple[float, float]:
    """Return the seconds of a generator that answers every message, and of ``kernel.run``."""
    tool = next(iter(session.snapshot.installed.values())).tool
    check, give = tool.arguments.check, tool.output.check

    async def queries() -> AsyncIterator[Message]:
        for number in range(count):
            yield Message("query", "Count.Up", {"count": number})

    async def answered() -> AsyncIterator[Message]:
        async for message in queries():
            answer = Message("reply", "Count.Done", check(message.data).count)
            give(answer.data)
            yield answer

    bare = await _timed(answered(), count)
    async with kernel.run(session, queries()) as answers:
        return bare, await _timed(answers, count)


async def _timed(messages: AsyncIterator[Message], count: int) -> float:
    """Read all messages, and return the seconds."""
    gc.collect()
    began, received = time.perf_counter(), 0
    async for _ in messages:
        received += 1
    took = time.perf_counter() - began
    assert received == count
    return took


async def _memory(session: Session, events: int) -> Row:
    """Compare what is in use after the first of many messages with what is after all of them."""
    early, received = 0.0, 0
    async with session.invoke(Message("query", "Count.Up", {"count": events})) as messages:
        async for _message in messages:
            received += 1
            if received == events // 100:
                early = resident_mb()
    grown = resident_mb() / early
    return Row(
        f"memory over {events:,} messages", round(grown, 3), "times", FLAT, "at most", {"at first": f"{early:.0f} MB"}
    )


async def _idle(session: Session, count: int) -> Row:
    before = resident_mb()
    async with AsyncExitStack() as stack:
        for _ in range(count):
            await stack.enter_async_context(session.invoke(Message("query", "Count.Up", {"count": 1})))
        await asyncio.sleep(0.5)
        took = resident_mb() - before
    return Row(
        f"{count:,} open invocations that wait",
        round(took, 1),
        "MB",
        IDLE_MB * count / 10_000,
        "at most",
        {"each": f"{took * 1e3 / count:.1f} kB"},
    )


def resident_mb() -> float:
    """Return the memory that the process has now; where that is not told, the most that it had."""
    gc.collect()
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def _row(name: str, bare: float, took: float, count: int, target: float) -> Row:
    peers = {"stream": f"{count / took:,.0f}/s", "async generator": f"{count / bare:,.0f}/s"}
    return Row(name, round(bare / took, 3), "of a plain async generator's rate", target, "at least", peers)
