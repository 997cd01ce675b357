"""Calls that end while a request is under way, and what their records say came of them (spec 4, G61)."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from capset import Tool, ToolError, tool
from capset.errors import DeadlineExceeded
from capset.kernel.governance.sent_requests import sending
from tests.helpers.kernel.support import desk, turns
from tests.virtual_time import anyio_backend

__all__ = ["anyio_backend"]

pytestmark = pytest.mark.spec("G61")
SOON = 60.0
LATER = 3_600.0
When = Literal["before", "while", "after", "within"]


def sender(when: When) -> Tool[[], int]:
    """Return a tool that waits before, while or after a request is under way; or while one is, in a task of its own."""

    async def request() -> None:
        with sending():
            await asyncio.sleep(LATER)

    async def send() -> int:
        """Send something."""
        match when:
            case "before":
                await asyncio.sleep(LATER)
            case "while":
                await request()
            case "after":
                with sending():
                    pass
                await asyncio.sleep(LATER)
            case "within":
                await asyncio.create_task(request())
        return 1

    return tool(name="send", effect="write", timeout=SOON)(send)


@pytest.mark.parametrize(
    ("when", "outcome"),
    [("before", "timed_out"), ("while", "unknown"), ("after", "timed_out"), ("within", "unknown")],
)
async def test_a_call_that_is_late_is_unknown_just_where_an_answer_was_due(when: When, outcome: str) -> None:
    send = sender(when)
    async with desk(send) as opened:
        with pytest.raises(DeadlineExceeded) as raised:
            await opened.session.call(send)
        record = await opened.record(tool="send")
    assert (record.outcome, record.code) == (outcome, "deadline_exceeded")
    assert ("not known" in raised.value.message) == (outcome == "unknown")
    assert raised.value.retryable is False


async def test_a_call_that_its_caller_cancels_is_cancelled() -> None:
    send = sender("while")
    async with desk(send) as opened:
        calling = asyncio.create_task(opened.session.call(send))
        await turns()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert (await opened.record(tool="send")).outcome == "cancelled"


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
        assert (await opened.record(tool="send")).outcome == outcome
