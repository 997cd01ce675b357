"""A program that is killed while its calls run, `program.py URL CALLS`; it prints a line for all that happens."""

from __future__ import annotations

import asyncio
import random
import sys
import time

from capset import Agent, Capability, Context, Kernel, Principal, tool


def say(*words: object) -> None:
    """Print at once, in one write: the reader may kill this process at any line."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


@tool
async def act(number: int, seconds: float) -> int:
    """Act, for a while."""
    say("started", number)
    await asyncio.sleep(seconds)
    return number


@tool(effect="destructive")
def act_in_a_thread(number: int, seconds: float) -> int:
    """Act in a thread, for a while."""
    say("started", number)
    time.sleep(seconds)
    return number


@tool(effect="external")
async def act_through(ctx: Context, number: int, seconds: float) -> int:
    """Have another act."""
    return await ctx.call(act, number, seconds)


@tool(effect="read")
async def look(number: int, seconds: float) -> int:
    """Look, which leaves no intent."""
    await asyncio.sleep(seconds)
    return number


TOOLS = (act, act_in_a_thread, act_through, look)
AGENT = Agent("tester", uses=[Capability("kit", tools=TOOLS)])


async def main(url: str, calls: int) -> None:
    async with Kernel(store=url) as kernel, kernel.open(AGENT, principal=Principal("user-1")) as session:

        async def call(number: int) -> None:
            seconds = 60.0 if calls < 10 else random.uniform(0, 0.05)
            result = await session.try_call(TOOLS[number % len(TOOLS)], number, seconds)
            say("told", result.record, result.success)

        say("session", session.id)
        await asyncio.gather(*(call(number) for number in range(calls)))
        say("done")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
