"""One of several processes that all write one session's state: `writers.py URL SESSION NAME TASKS OPERATIONS`.

The benchmark `state` counts what they do in a second, and a test that nothing of it is lost.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from functools import partial

from pydantic import BaseModel

from capset import Agent, Capability, Context, Kernel, Principal, Resource, tool


class Shared(BaseModel):
    """What all processes write at once, in one row."""

    count: int = 0
    log: list[str] = []
    updated: int = 0
    last: str = ""


def updated(now: Shared, mark: str) -> Shared:
    """Count one more update."""
    return now.model_copy(update={"updated": now.updated + 1, "last": mark})


marks = Resource("marks", dict[str, int], scope="session", default=dict)


@tool
async def work(ctx: Context, name: str, tasks: int, operations: int) -> float:
    """Increment, push, patch and update, by turns, from many tasks; return the seconds that it took."""
    state, numbers = ctx.state(Shared), iter(range(operations))

    async def operate() -> None:
        for number in numbers:  # which all tasks share
            mark = f"{name}-{number}"
            match number % 4:
                case 0:
                    await state.increment("count")
                case 1:
                    await state.push(mark, field="log")
                case 2:
                    await ctx.resource(marks).patch({mark: number})
                case _:
                    await state.update(partial(updated, mark=mark))

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(tasks):
            group.create_task(operate())
    return time.monotonic() - began


@tool(effect="read")
async def look(ctx: Context) -> tuple[Shared, dict[str, int]]:
    """Return what came of it."""
    return await ctx.state(Shared).get(), await ctx.resource(marks).get()


AGENT = Agent("writers", uses=[Capability("shared", state={"session": Shared}, resources=[marks], tools=[work, look])])
WHO = Principal("user-1")


async def main(url: str, session_id: str, name: str, tasks: int, operations: int) -> None:
    """Work, and print the seconds that it took."""
    async with Kernel(store=url) as kernel, kernel.open(AGENT, principal=WHO, session_id=session_id) as session:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)  # all begin at once
        sys.stdout.write(f"{await session.call(work, name, tasks, operations)}\n")


def start(url: str, session_id: str, name: str, tasks: int, operations: int) -> subprocess.Popen[str]:
    """Start one such process, and return it once it is ready: it begins at a line on its stdin."""
    process = subprocess.Popen(
        [sys.executable, __file__, url, session_id, name, str(tasks), str(operations)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if process.stdout is None or process.stdout.readline() != "ready\n":
        raise RuntimeError(f"the process {name} did not get ready: {process.communicate()[1]}")
    return process


if __name__ == "__main__":
    url, session_id, name, tasks, operations = sys.argv[1:]
    asyncio.run(main(url, session_id, name, int(tasks), int(operations)))
