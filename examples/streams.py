"""A tool as a stream processor: it pushes messages, its reader sets the pace, and each invocation is on record."""

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

from pydantic import BaseModel

from capset import Agent, Context, Emit, Kernel, Message, Principal, Tool, handles
from capset.stores.base import AuditQuery


class Text(BaseModel):
    text: str


class Read(BaseModel):
    """Read a text aloud, word by word."""

    kind: Literal["query"] = "query"
    type: Literal["Reader.Read"] = "Reader.Read"
    data: Text


class Word(BaseModel):
    """The next word."""

    kind: Literal["event"] = "event"
    type: Literal["Reader.Word"] = "Reader.Word"
    data: str


class Finished(BaseModel):
    """How many words there were."""

    kind: Literal["reply"] = "reply"
    type: Literal["Reader.Finished"] = "Reader.Finished"
    data: int


async def read(message: Read, emit: Emit, ctx: Context) -> None:
    words = message.data.text.split()
    for word in words:
        print(f"  … reading {word!r}")
        await emit(Word(data=word))
    await emit(Finished(data=len(words)))


aloud = Tool.from_processor(
    inbound=Read,
    outbound=Word | Finished,
    factory=handles(read),
    description="Reads texts aloud, at the pace of whoever listens.",
)


async def texts() -> AsyncIterator[Message]:
    for text in ("to be", "or not", "to be"):
        yield Message("query", "Reader.Read", {"text": text})


async def main() -> None:
    reader = Agent("reader", tools=[aloud])
    async with Kernel(store="memory://") as kernel, kernel.open(reader, principal=Principal("me")) as session:
        # Whoever reads sets the pace: after two words nobody listens any more, and reading stops.
        async with session.stream(aloud, text="that is the question that nobody asks to the end") as messages:
            async for message in messages:
                print("heard", message.data)
                if message.data == "is":
                    break

        # Many invocations at once, in one bounded stream.
        async with kernel.run(session, texts()) as answers:
            counts = [message.data async for message in answers if message.kind == "reply"]
        print("words:", counts)

        await kernel.audit.flush()
        for record in reversed((await kernel.audit.query(AuditQuery(session=session.id))).items):
            print(record.tool, record.outcome)


asyncio.run(main())
