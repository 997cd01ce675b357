"""Threads of sync handlers: bounded, and nothing hangs on those that never end."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time

import pytest

from capset.kernel.call import worker_threads
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


@pytest.mark.spec("K15")
@pytest.mark.parametrize("stops", [True, False])
async def test_a_cancelled_wait_ends_as_cancelled_whatever_the_thread_does(
    monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    monkeypatch.setattr(worker_threads, "STOP_SECONDS", 1.0 if stops else 0.05)
    unseen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context))
    threads, begun, release = Threads(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        release.wait(10)
        raise RuntimeError("interrupted")

    task = asyncio.create_task(threads.run(work, stop=release.set if stops else lambda: None))
    while not begun.is_set():  # noqa: ASYNC110 - a thread sets it
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert threads.abandoned == (0 if stops else 1)
    del task
    gc.collect()
    await asyncio.sleep(0)
    assert unseen == []
    release.set()
