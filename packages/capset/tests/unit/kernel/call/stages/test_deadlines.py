"""Deadlines: a tool's timeout, the caller's and the message's; who swallows a cancellation is late all the same."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import permutations

import pytest

from capset import Capability, Context, Message, Meta, Progress, Reply, Tool, ToolError, tool
from capset.errors import DeadlineExceeded, InvalidArguments
from capset.kernel.governance.sent_requests import sending
from capset_testing import session_for
from tests.helpers.kernel.support import Desk, ask, desk, read, turns
from tests.virtual_time import anyio_backend
from tests.waiting import until

__all__ = ["anyio_backend"]

pytestmark = pytest.mark.spec("K16")
SOON = 60.0
LATER = 3_600.0


def waiting(timeout: float | None = None, seconds: float = LATER) -> Tool[[], int]:
    async def wait() -> int:
        """Wait."""
        await asyncio.sleep(seconds)
        return 1

    return tool(name="wait", timeout=timeout)(wait)


def sent(deadline: float, tool: str = "wait") -> Message:
    return Message("command", tool, {}, Meta("sent-1", "", "thread-1", deadline=deadline))


async def check_late(opened: Desk) -> None:
    record = await opened.record()
    assert (record.outcome, record.code, record.decision) == ("timed_out", "deadline_exceeded", "allow")


@pytest.mark.parametrize(("of_tool", "of_caller", "of_message"), sorted({*permutations((SOON, LATER, LATER))}))
async def test_the_soonest_of_all_deadlines_counts(of_tool: float, of_caller: float, of_message: float) -> None:
    async with desk(waiting(of_tool)) as opened:
        session = opened.session.options(timeout=of_caller)
        started = asyncio.get_running_loop().time()
        (error,) = await read(session.invoke(sent(time.time() + of_message)))
        assert error.data["status"] == 504
        # The deadline of a message is on the system's clock, which does not stop while the test runs.
        assert SOON / 2 < asyncio.get_running_loop().time() - started <= SOON + 1
        await check_late(opened)


@pytest.mark.spec("G23")
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


async def test_a_deadline_or_a_timeout_that_is_no_time_is_refused() -> None:
    async with desk(waiting(seconds=0)) as opened:
        for deadline in (math.nan, math.inf, -math.inf, 10**400, True):
            (error,) = await read(opened.session.invoke(sent(deadline)))
            assert (error.data["status"], error.data["code"]) == (422, "invalid_arguments")
            assert "deadline" in error.data["message"]
        for timeout in (0, -1, math.nan):
            with pytest.raises(InvalidArguments, match="timeout must be a positive number"):
                opened.session.options(timeout=timeout)


async def test_a_deadline_is_on_the_kernels_clock() -> None:
    async with session_for(Capability("kit", tools=[waiting(seconds=0)])) as opened:
        for seconds, kind in ((-1, "error"), (SOON, "reply")):
            (last,) = await read(opened.session.invoke(sent(opened.clock.time_ns() / 1e9 + seconds)))
            assert last.kind == kind


@pytest.mark.parametrize(
    "error", [None, ValueError("x"), TimeoutError("x"), ExceptionGroup("x", [ValueError("x")])], ids=repr
)
async def test_a_handler_that_returns_or_fails_after_its_cancellation_is_late(error: Exception | None) -> None:
    @tool(timeout=SOON)
    async def stubborn() -> int:
        """Swallow the cancellation."""
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(LATER)
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return 1

    async with desk(stubborn) as opened:
        result = await opened.session.try_call(stubborn)
        assert (result.success, result.data, type(result.error)) == (False, None, DeadlineExceeded)
        await check_late(opened)
        await asyncio.sleep(0)  # nothing of the cancellation is left over for the caller


async def test_a_handlers_own_timeout_is_a_failure_not_a_deadline() -> None:
    @tool(timeout=LATER)
    async def hasty() -> int:
        """Be hasty."""
        async with asyncio.timeout(SOON):
            await asyncio.sleep(LATER)
        return 1

    async with desk(hasty) as opened:
        assert (await ask(opened.session, "hasty"))[0].data["status"] == 500


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


@pytest.mark.spec("C31")
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
        outcomes = {record.tool: record.outcome for record in await opened.records()}
        assert outcomes == {"outer": "timed_out", "wait": "timed_out"}


@pytest.mark.spec("C31")
async def test_a_handler_may_go_on_after_a_nested_call_that_was_late() -> None:
    inner = waiting(SOON)

    @tool
    async def outer(ctx: Context) -> str:
        """Call the other."""
        with pytest.raises(DeadlineExceeded):
            await ctx.call(inner)
        await asyncio.sleep(0)
        return "gave up"

    async with desk(inner, outer) as opened:
        assert await opened.session.call(outer) == "gave up"


@pytest.mark.spec("K15")
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


def sender(when: str) -> Tool[[], int]:
    """Return a tool that waits before, while or after a request is under way; or while one is, in a task of its own."""

    async def request() -> None:
        with sending():
            await asyncio.sleep(LATER)

    async def send() -> int:
        """Send something."""
        if when == "while":
            await request()
        elif when == "within":
            await asyncio.create_task(request())
        elif when == "after":
            with sending():
                pass
        await asyncio.sleep(LATER)
        return 1

    return tool(name="send", effect="write", timeout=SOON)(send)


@pytest.mark.spec("G61")
@pytest.mark.parametrize(
    ("when", "outcome"), [("before", "timed_out"), ("while", "unknown"), ("after", "timed_out"), ("within", "unknown")]
)
async def test_a_call_that_is_late_is_unknown_just_where_an_answer_was_due(when: str, outcome: str) -> None:
    send = sender(when)
    async with desk(send) as opened:
        with pytest.raises(DeadlineExceeded) as raised:
            await opened.session.call(send)
        record = await opened.record()
    assert (record.outcome, record.code) == (outcome, "deadline_exceeded")
    assert ("not known" in raised.value.message, raised.value.retryable) == (outcome == "unknown", False)


@pytest.mark.spec("G61")
async def test_an_outer_timeout_of_the_caller_is_its_own_even_while_an_answer_is_due() -> None:
    send = sender("while")
    async with desk(send) as opened:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON / 2):
                await opened.session.call(send)
        assert (await opened.record()).outcome == "cancelled"


@pytest.mark.spec("G61")
@pytest.mark.parametrize(("is_lost", "outcome"), [(True, "unknown"), (False, "failed")])
async def test_an_error_says_itself_whether_the_answer_was_lost(is_lost: bool, outcome: str) -> None:
    @tool(effect="write")
    async def send() -> int:
        """Send something."""
        error = ToolError("the line is cut")
        error.answer_lost = is_lost
        with sending():
            raise error

    async with desk(send) as opened:
        with pytest.raises(ToolError, match="the line is cut"):
            await opened.session.call(send)
        assert (await opened.record()).outcome == outcome
