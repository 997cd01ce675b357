from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from capset import Context, Kernel, Session, tool
from capset.definitions.blocks import Block
from capset.errors import DeadlineExceeded, InternalError
from capset.flows import Flow, Generator, Handler, Sequencer, as_tool, handler
from capset_testing import Call, Say, ScriptedRunner
from tests.helpers.flows.support import ADA, add, opened, records
from tests.virtual_time import anyio_backend

__all__ = ["anyio_backend"]


class Watched:
    """A handler that waits, and tells how it ended."""

    def __init__(self, seconds: float = 60.0, cleanup: float = 0.0) -> None:
        self.started = asyncio.Event()
        self.ended: list[str] = []

        async def function(value: object) -> str:
            self.started.set()
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                await asyncio.sleep(cleanup)
                self.ended.append("cancelled")
                raise
            self.ended.append("done")
            return "done"

        self.block = Handler("waits", function)


def flat(watched: Watched) -> Sequencer:
    return Sequencer("s").then(watched.block)


def nested(watched: Watched) -> Sequencer:
    return Sequencer("s").parallel(add("one", 1), deep=Sequencer("deep").then(watched.block))


Shape = Callable[[Watched], Sequencer]


async def cancelled(session: Session, started: asyncio.Event) -> None:
    running = asyncio.create_task(session.run(1))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert running.cancelled()


@pytest.mark.spec("C37", "K16")
@pytest.mark.parametrize("shape", [flat, nested])
async def test_a_cancellation_or_a_deadline_cancels_what_runs_inside_and_waits_for_it(shape: Shape) -> None:
    watched = Watched(cleanup=0.01)
    async with opened(Flow("f", shape(watched))) as session:
        await cancelled(session, watched.started)
        assert watched.ended == ["cancelled"]
        with pytest.raises(DeadlineExceeded, match="'f' did not finish in time"):
            await session.options(timeout=0.02).run(1)
        assert watched.ended == ["cancelled"] * 2


async def test_a_second_cancellation_reaches_the_branches_that_still_clean_up() -> None:
    watched = Watched(cleanup=60)
    async with opened(nested(watched)) as session:
        running = asyncio.create_task(session.run(1))
        await watched.started.wait()
        for _ in range(2):
            running.cancel()
            await asyncio.sleep(0.01)
        assert running.cancelled()
    assert watched.ended == []  # its cleanup was cut short, and it is over


@pytest.mark.spec("K16")
async def test_who_swallows_the_cancellation_or_fails_while_cleaning_up_is_late_all_the_same() -> None:
    async def swallows(value: str) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if value == "fails":
                raise ValueError("while cleaning up") from None
        return "late"

    for inside in (Handler("h", swallows), Sequencer("s").parallel(Handler("h", swallows))):
        async with opened(inside) as session:
            for value in ("fails", "swallows"):
                with pytest.raises(DeadlineExceeded):
                    await session.options(timeout=0.02).run(value)


async def test_a_sync_handler_is_late_and_its_thread_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    go_on = threading.Event()

    def blocks(value: object) -> None:
        go_on.wait(10)

    async with opened(Handler("blocks", blocks)) as session:
        with pytest.raises(DeadlineExceeded):
            await session.options(timeout=0.5).run()
        go_on.set()
    assert "the thread of 'blocks'" in caplog.text


@pytest.mark.spec("K16")
async def test_the_deadline_reaches_the_tools_that_a_generator_calls() -> None:
    @tool
    async def sleep(ctx: Context) -> str:
        """Sleep."""
        await asyncio.sleep(60)
        return "awake"

    kernel = Kernel("memory://", generator=ScriptedRunner({"g": [Call("sleep"), Say("never")]}))
    sequencer = Sequencer("s").then(Generator("g", tools=[sleep]))
    async with kernel, kernel.open(sequencer, principal=ADA) as session:
        with pytest.raises(DeadlineExceeded):
            await session.options(timeout=0.5).run()
        (record,) = await records(kernel)
    assert (record.tool, record.outcome) == ("sleep", "cancelled")


@pytest.mark.spec("G19")
async def test_leaving_a_run_puts_the_calls_inside_on_record_as_cancelled(store: str) -> None:
    watched = Watched(cleanup=0.01)
    block = Generator("g", tools=[as_tool(Sequencer("work", description="Work.").parallel(watched.block))])
    runner = ScriptedRunner({"g": [Call("work", input=1), Say("never")]})
    async with Kernel(store, generator=runner) as kernel, kernel.open(block, principal=ADA) as session:
        await cancelled(session, watched.started)
        (record,) = await records(kernel)
    assert (record.tool, record.outcome) == ("work", "cancelled")
    assert watched.ended == ["cancelled"]


async def test_a_branch_that_fails_while_cancelled_from_outside_does_not_hide_the_cancellation() -> None:
    waiting = asyncio.Event()

    @handler()
    async def fails(value: object) -> None:
        try:
            waiting.set()
            await asyncio.sleep(60)
        finally:
            raise ValueError("while cleaning up")

    async with opened(Sequencer("s").parallel(fails, add("one", 1))) as session:
        await cancelled(session, waiting)


async def test_after_a_failing_branch_the_caller_is_not_left_cancelled() -> None:
    @handler()
    async def fails(value: object) -> None:
        await asyncio.sleep(0)
        raise ValueError(value)

    task = asyncio.current_task()
    assert task is not None
    async with opened(Sequencer("s").parallel(fails, Watched().block)) as session:
        with pytest.raises(InternalError):
            await session.run(1)
        assert task.cancelling() == 0
        await asyncio.sleep(0)


@asynccontextmanager
async def closed_while_running(block: Block, watched: Watched, store: str) -> AsyncGenerator[asyncio.Task[Any]]:
    kernel = Kernel(store)
    await kernel.__aenter__()
    async with kernel.open(block, principal=ADA) as session:
        running = asyncio.create_task(session.run(1))
        await watched.started.wait()
        await kernel.__aexit__(None, None, None)
        yield running


@pytest.mark.spec("K15")
async def test_a_closing_kernel_waits_for_a_run_to_end(store: str) -> None:
    watched = Watched(seconds=0.05)
    async with closed_while_running(Flow("f", flat(watched)), watched, store) as running:
        assert watched.ended == ["done"]
        assert await running == "done"


@pytest.mark.spec("K15")
async def test_a_run_that_does_not_end_is_reported_when_the_kernel_closes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("capset.kernel.kernel.DRAIN_SECONDS", 0.02)
    watched = Watched()
    async with closed_while_running(flat(watched), watched, "memory://") as running:
        assert "the kernel was closed with 1 call still running" in caplog.text
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
