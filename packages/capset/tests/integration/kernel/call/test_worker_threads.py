"""Threads of sync handlers: bounded, and nothing hangs on those that never end."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading

import pytest

from capset import tool
from capset.errors import NoFreeSlot
from capset.kernel.call import worker_threads
from capset.kernel.call.fair_slots import Owner
from capset.kernel.call.worker_threads import MAX_THREADS, Threads
from tests.helpers.kernel.support import desk, turns
from tests.waiting import until

ADA, BOB = Owner("acme", "ada"), Owner("acme", "bob")

HANGS = """
import asyncio, time
from capset import Agent, Capability, Kernel, Principal, tool

@tool(effect="read", timeout=0.05)
def hang() -> int:
    'Hang.'
    time.sleep(3_600)
    return 1

async def main():
    agent = Agent("a", uses=[Capability("c", tools=[hang])])
    async with Kernel(store="memory://") as kernel, kernel.open(agent, principal=Principal("p")) as session:
        print((await session.try_call(hang)).error.status)

asyncio.run(main())
"""


@pytest.mark.realtime
@pytest.mark.spec("K15")
def test_an_abandoned_thread_does_not_keep_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "504\n"


@pytest.mark.spec("K15", "K21")
async def test_abandoned_threads_keep_their_slots_until_they_end() -> None:
    threads, release = Threads(), threading.Event()
    hanging = [asyncio.create_task(threads.run(ADA, release.wait)) for _ in range(MAX_THREADS)]
    await until(lambda: threads.running == MAX_THREADS // 2)
    waiting = asyncio.create_task(threads.run(ADA, lambda: 1))
    for task in hanging:
        task.cancel()
    await asyncio.wait(hanging)
    await turns()
    assert not waiting.done()
    assert (threads.running, threads.abandoned_running, threads.abandoned) == (MAX_THREADS // 2,) * 3
    assert await threads.run(BOB, lambda: 2) == 2
    release.set()
    assert await asyncio.wait_for(waiting, 60) == 1
    await until(lambda: threads.running == 0)
    assert (threads.abandoned_running, threads.abandoned) == (0, MAX_THREADS // 2)


@pytest.mark.spec("K21")
@pytest.mark.parametrize("how", ["its own time", "the longest wait"])
async def test_a_call_that_gets_no_thread_in_time_is_refused_and_says_why(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    ran, go = list[int](), threading.Event()

    @tool(effect="write")
    def occupy() -> None:
        """Keep a thread until the end."""
        go.wait(20)

    @tool(effect="write")
    def act() -> None:
        """Act."""
        ran.append(1)

    async with desk(occupy, act) as opened:
        keeping = [asyncio.ensure_future(opened.session.call(occupy)) for _ in range(MAX_THREADS)]
        await until(lambda: opened.kernel.threads.waiting == MAX_THREADS // 2)
        monkeypatch.setattr(worker_threads, "START_SECONDS", 0.05 if how == "the longest wait" else 60)
        timeout = 0.05 if how == "its own time" else None
        error = (await opened.session.options(timeout=timeout).try_call(act)).error
        assert isinstance(error, NoFreeSlot)
        assert (error.status, error.retryable, error.refusal) == (429, True, True)
        assert f"at most {MAX_THREADS} sync handlers run at once" in error.message
        record = await opened.record(tool="act")
        assert (record.outcome, record.attempts or 0) == ("limited", 0)
        go.set()
        await asyncio.gather(*keeping)
        assert ran == []
        await opened.session.call(act)
        assert ran == [1]


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

    task = asyncio.create_task(threads.run(ADA, work, stop=release.set if stops else lambda: None))
    await until(begun.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert threads.abandoned == (0 if stops else 1)
    del task
    gc.collect()
    await asyncio.sleep(0)
    assert unseen == []
    release.set()
