"""Deadlines: a tool's timeout, the caller's and the message's; who swallows a cancellation is late all the same."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator
from itertools import permutations
from typing import Any

import pytest

from capset import Context, Kernel, Message, Meta, Principal, Progress, Reply, Tool, tool
from capset.errors import DeadlineExceeded, InvalidArguments
from capset_testing import FakeClock
from tests.helpers.kernel.support import Desk, ask, desk, read, turns
from tests.virtual_time import anyio_backend
from tests.waiting import until

__all__ = ["anyio_backend"]

SOON = 60.0
LATER = 3_600.0


def waiting(timeout: float | None = None, seconds: float = LATER, effect: Any = "write") -> Tool[[], int]:
    async def wait() -> int:
        """Wait."""
        await asyncio.sleep(seconds)
        return 1

    return tool(name="wait", effect=effect, timeout=timeout)(wait)


def sent(deadline: float, tool: str = "wait") -> Message:
    return Message("command", tool, {}, Meta("sent-1", "", "thread-1", deadline=deadline))


async def check_late(opened: Desk, *, runs: int = 1) -> None:
    records = await opened.records()
    assert [(record.outcome, record.code, record.decision) for record in records] == [
        ("timed_out", "deadline_exceeded", "allow")
    ] * runs


@pytest.mark.spec("K16")
async def test_a_tools_timeout_ends_it_with_504() -> None:
    wait = waiting(SOON)
    async with desk(wait) as opened:
        with pytest.raises(DeadlineExceeded) as raised:
            await opened.session.call(wait)
        assert (raised.value.status, raised.value.retryable) == (504, False)  # it may have had its effects
        assert (await ask(opened.session, "wait"))[0].data["status"] == 504
        await check_late(opened, runs=2)


@pytest.mark.spec("K16")
async def test_the_callers_timeout_ends_it_too() -> None:
    wait = waiting()
    async with desk(wait) as opened:
        with pytest.raises(DeadlineExceeded):
            await opened.session.options(timeout=SOON).call(wait)
        await check_late(opened)


@pytest.mark.spec("K16")
@pytest.mark.parametrize(("of_tool", "of_caller", "of_message"), sorted({*permutations((SOON, LATER, LATER))}))
async def test_the_soonest_of_all_deadlines_counts(of_tool: float, of_caller: float, of_message: float) -> None:
    wait = waiting(of_tool)
    async with desk(wait) as opened:
        session = opened.session.options(timeout=of_caller)
        started = asyncio.get_running_loop().time()
        (error,) = await read(session.invoke(sent(time.time() + of_message)))
        assert error.data["status"] == 504
        # The deadline of a message is on the system's clock, which does not stop while the test runs.
        assert SOON / 2 < asyncio.get_running_loop().time() - started <= SOON + 1
        await check_late(opened)


@pytest.mark.spec("K16")
async def test_a_call_with_time_left_is_not_touched() -> None:
    wait = waiting(LATER, seconds=0)
    async with desk(wait) as opened:
        (reply,) = await read(opened.session.options(timeout=LATER).invoke(sent(time.time() + LATER)))
        assert reply.data == 1
        await asyncio.sleep(0)


@pytest.mark.spec("K16", "G23")
@pytest.mark.parametrize("ago", [0.0, 0.001, 1e9])
async def test_a_handler_whose_deadline_has_passed_never_starts(ago: float) -> None:
    @tool
    async def act() -> int:
        """Act at once, without waiting for anything."""
        raise AssertionError("it ran")

    async with desk(act) as opened:
        (error,) = await read(opened.session.invoke(sent(time.time() - ago, "act")))
        assert error.data["status"] == 504
        await check_late(opened)


@pytest.mark.parametrize("deadline", [math.nan, math.inf, -math.inf, 10**400, True])
async def test_a_deadline_that_is_no_time_is_refused(deadline: float) -> None:
    wait = waiting(seconds=0)
    async with desk(wait) as opened:
        (error,) = await read(opened.session.invoke(sent(deadline)))
        assert (error.data["status"], error.data["code"]) == (422, "invalid_arguments")
        assert "deadline" in error.data["message"]


@pytest.mark.parametrize("timeout", [0, -1, math.nan])
async def test_a_timeout_that_is_no_time_is_refused(timeout: float) -> None:
    async with desk(waiting()) as opened:
        with pytest.raises(InvalidArguments, match="timeout must be a positive number of seconds"):
            opened.session.options(timeout=timeout)


@pytest.mark.spec("K16")
async def test_a_deadline_is_on_the_kernels_clock() -> None:
    clock, wait = FakeClock(), waiting()
    async with Kernel(store="memory://", clock=clock) as kernel:
        async with desk(wait) as opened:
            agent = opened.session.snapshot.composition.block
        async with kernel.open(agent, principal=Principal("user-1")) as session:
            (error,) = await read(session.invoke(sent(clock.time_ns() / 1e9 - 1)))
            assert error.data["status"] == 504


@pytest.mark.spec("K16")
async def test_a_handler_that_swallows_the_cancellation_and_returns_is_late() -> None:
    @tool(timeout=SOON)
    async def stubborn() -> int:
        """Return all the same."""
        try:
            await asyncio.sleep(LATER)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return 1

    async with desk(stubborn) as opened:
        result = await opened.session.try_call(stubborn)
        assert (result.success, result.data) == (False, None)
        await check_late(opened)
        await asyncio.sleep(0)  # nothing of the cancellation is left over for the caller


@pytest.mark.spec("K16")
@pytest.mark.parametrize(
    "error", [ValueError("x"), TimeoutError("x"), ExceptionGroup("x", [ValueError("x")])], ids=repr
)
async def test_a_handler_that_fails_while_it_cleans_up_is_late(error: Exception) -> None:
    @tool(timeout=SOON)
    async def messy() -> int:
        """Fail in the end."""
        try:
            await asyncio.sleep(LATER)
        finally:
            raise error

    async with desk(messy) as opened:
        with pytest.raises(DeadlineExceeded):
            await opened.session.call(messy)
        await check_late(opened)


@pytest.mark.spec("K16")
async def test_a_handlers_own_timeout_is_a_failure_not_a_deadline() -> None:
    @tool(timeout=LATER)
    async def hasty() -> int:
        """Be hasty."""
        async with asyncio.timeout(SOON):
            await asyncio.sleep(LATER)
        return 1

    async with desk(hasty) as opened:
        assert (await ask(opened.session, "hasty"))[0].data["status"] == 500


@pytest.mark.spec("K16")
async def test_a_cancellation_from_outside_wins_over_an_expiry() -> None:
    cleaning = asyncio.Event()

    @tool(timeout=SOON)
    async def slow() -> int:
        """Take longer to clean up than there is time left."""
        try:
            await asyncio.sleep(LATER)
        finally:
            cleaning.set()
            await asyncio.sleep(2 * SOON)
        return 1

    async with desk(slow) as opened:
        call = asyncio.create_task(opened.session.call(slow))
        await turns()
        call.cancel()
        await cleaning.wait()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await opened.record()).outcome == "cancelled"


@pytest.mark.spec("K16")
async def test_an_outer_timeout_of_the_caller_is_the_callers_own() -> None:
    wait = waiting(LATER)
    async with desk(wait) as opened:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON):
                await opened.session.call(wait)
        assert (await opened.record()).outcome == "cancelled"


def emitting(timeout: float | None) -> Tool[[], int]:
    async def emit() -> AsyncIterator[Progress | Reply[int]]:
        """Emit four messages, taking hardly any time."""
        for number in range(1, 4):
            yield Progress(number / 4)
        yield Reply(1)

    return tool(name="emit", effect="read", timeout=timeout)(emit)


@pytest.mark.spec("K16")
async def test_a_tools_timeout_stands_still_while_its_consumer_makes_it_wait() -> None:
    emit = emitting(timeout=SOON)
    async with desk(emit) as opened:
        kinds: list[str] = []
        async with opened.session.stream(emit) as messages:
            async for message in messages:
                kinds.append(message.kind)
                await asyncio.sleep(2 * SOON)
        assert kinds == ["event", "event", "event", "reply"]


@pytest.mark.spec("K16")
async def test_a_tools_timeout_goes_on_where_it_stood() -> None:
    """It does not begin anew with every message."""

    @tool(effect="read", timeout=8)
    async def dawdle() -> AsyncIterator[Progress | Reply[int]]:
        """Emit now and then."""
        for number in range(1, 100):
            yield Progress(number / 100)
            await asyncio.sleep(3)

    async with desk(dawdle) as opened:
        kinds = [message.kind for message in await read(opened.session.stream(dawdle))]
        assert kinds == ["event", "event", "event", "error"]


@pytest.mark.spec("K16")
async def test_a_deadline_from_outside_does_not_stand_still() -> None:
    emit = emitting(timeout=LATER)
    async with desk(emit) as opened:
        async with opened.session.options(timeout=SOON).stream(emit) as messages:
            assert (await anext(messages)).kind == "event"
            await asyncio.sleep(2 * SOON)
            rest = [message async for message in messages]
        assert (rest[-1].kind, rest[-1].data["status"]) == ("error", 504)
        assert (await opened.record()).outcome == "timed_out"


@pytest.mark.spec("K16")
async def test_a_deadline_from_outside_still_holds_after_an_event() -> None:
    @tool(effect="read", timeout=LATER)
    async def linger() -> AsyncIterator[Progress | Reply[int]]:
        """Emit twice, then wait."""
        yield Progress(0.5)
        yield Progress(0.6, "read late")
        await asyncio.sleep(LATER)

    async with desk(linger) as opened:
        started = asyncio.get_running_loop().time()
        async with opened.session.options(timeout=20).stream(linger) as messages:
            assert (await anext(messages)).kind == "event"
            await asyncio.sleep(15)
            assert (await anext(messages)).data["message"] == "read late"
            assert (await anext(messages)).data["status"] == 504
        # And not after 35 s: the wait for the reader is no extra time.
        assert asyncio.get_running_loop().time() - started == pytest.approx(20, abs=0.1)


@pytest.mark.spec("K16", "C31")
async def test_a_nested_call_in_a_task_of_its_own_is_held_to_the_deadline_too() -> None:
    inner = waiting()
    tasks: list[asyncio.Task[int]] = []

    @tool
    async def outer(ctx: Context) -> int:
        """Call the other in a task that no cancellation reaches."""
        tasks.append(asyncio.create_task(ctx.call(inner)))
        return await asyncio.shield(tasks[0])

    async with desk(inner, outer) as opened:
        with pytest.raises(DeadlineExceeded):
            await opened.session.options(timeout=SOON).call(outer)
        await asyncio.wait(tasks)
        assert isinstance(tasks[0].exception(), DeadlineExceeded)
        assert {record.tool: record.outcome for record in await opened.records()} == {
            "outer": "timed_out",
            "wait": "timed_out",
        }


@pytest.mark.spec("K16", "C31")
async def test_a_nested_call_runs_under_its_callers_deadline() -> None:
    inner = waiting()

    @tool
    async def outer(ctx: Context) -> int:
        """Call the other."""
        return await ctx.call(inner)

    async with desk(inner, outer) as opened:
        with pytest.raises(DeadlineExceeded):
            await opened.session.options(timeout=SOON).call(outer)
        assert (await opened.record(tool="outer")).outcome == "timed_out"
        assert (await opened.record(tool="wait")).outcome in ("timed_out", "cancelled")


@pytest.mark.spec("K16", "C31")
async def test_a_handler_may_go_on_after_a_nested_call_that_was_late() -> None:
    inner = waiting(SOON)

    @tool
    async def outer(ctx: Context) -> str:
        """Call the other."""
        try:
            await ctx.call(inner)
        except DeadlineExceeded:
            await asyncio.sleep(0)
            return "gave up"
        raise AssertionError("it was not late")

    async with desk(inner, outer) as opened:
        assert await opened.session.call(outer) == "gave up"


@pytest.mark.spec("K15", "K16")
async def test_a_sync_handler_that_is_late_is_abandoned_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    release, ended = threading.Event(), threading.Event()

    @tool(timeout=0.03)
    def block() -> int:
        """Block."""
        release.wait(60)
        ended.set()
        return 1

    async with desk(block) as opened:
        with pytest.raises(DeadlineExceeded):
            await opened.session.call(block)
        await check_late(opened)
        record = await opened.record()
        assert f"the thread of 'block', correlation {record.correlation}, is abandoned" in caplog.text
        release.set()
        await until(ended.is_set)
        await turns()
        await check_late(opened)
