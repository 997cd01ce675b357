"""A tool that tells how far it has come, read as a stream of messages."""

import asyncio
from collections.abc import AsyncIterator

from capset import Agent, Capability, Kernel, Principal, Progress, Reply, tool


@tool(effect="read")
async def count_words(texts: list[str]) -> AsyncIterator[Progress | Reply[int]]:
    """Count the words of all texts.

    Args:
        texts: The texts to read, one after the other.
    """
    words = 0
    for position, text in enumerate(texts, start=1):
        words += len(text.split())
        yield Progress(position / len(texts), f"text {position}")
    yield Reply(words)


reader = Agent("reader", uses=[Capability("reading", tools=[count_words])])


async def main() -> None:
    async with Kernel(store="memory://") as kernel, kernel.open(reader, principal=Principal("me")) as session:
        async with session.stream(count_words, texts=["to be", "or not to be", "that is the question"]) as messages:
            async for message in messages:
                print(message.kind, message.data)
        print("on record as", messages.record)
        # The same tool as a plain call: the progress goes nowhere, the reply comes back, typed.
        words: int = await session.call(count_words, texts=["once more"])
        print(words)


asyncio.run(main())
