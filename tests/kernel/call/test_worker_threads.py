"""Threads of sync handlers: bounded, and nothing hangs on those that never end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from capset.kernel.call.worker_threads import AT_ONCE, Threads

HANGS = """
import asyncio, time
from capset import Agent, Capability, Kernel, Principal, tool

@tool(effect="read", timeout=0.05)
def hang() -> int:
    'Hang.'
    time.sleep(60)
    return 1

async def main():
    agent = Agent("a", uses=[Capability("c", tools=[hang])])
    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=Principal("p")) as session:
        print((await session.try_call(hang)).error.status)

asyncio.run(main())
"""


@pytest.mark.spec("K15")
def test_an_abandoned_thread_does_not_keep_the_process() -> None:
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "504\n"
    assert time.monotonic() - started < 20


@pytest.mark.spec("K15")
async def test_abandoned_threads_leave_their_turns_to_others() -> None:
    threads, release = Threads(), threading.Event()
    hanging = [asyncio.create_task(threads.run(release.wait)) for _ in range(AT_ONCE)]
    await asyncio.sleep(0.01)
    waiting = asyncio.create_task(threads.run(lambda: 1))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    for task in hanging:
        task.cancel()
    assert await asyncio.wait_for(waiting, 5) == 1
    release.set()
    await asyncio.wait(hanging)
