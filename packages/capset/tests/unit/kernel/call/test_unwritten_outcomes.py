"""Outcomes that the store does not take at once: they are on record in the end, or callers hear of it (G19, G23)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from pydantic_core import to_json

from capset import Json, tool
from capset.errors import StoreError
from capset.kernel.governance.redaction import MAX_RECORDED_BYTES
from tests.helpers.kernel.support import TappedStore, desk, too_late
from tests.waiting import until


def full_at_first() -> Callable[[str], None]:
    """Return a tap that refuses the first outcome."""
    refused: list[str] = []

    def refuse(phase: str) -> None:
        if phase == "outcome" and not refused:
            refused.append(phase)
            raise StoreError("the audit log has no room")

    return refuse


@pytest.mark.spec("G19", "G23")
async def test_where_there_is_no_room_for_a_record_the_call_waits_for_it() -> None:
    @tool(effect="read")
    async def look() -> int:
        """Look."""
        return 1

    async with desk(look, store=TappedStore(full_at_first())) as opened:
        assert await opened.session.call(look) == 1
        assert (await opened.record()).outcome == "succeeded"


@pytest.mark.spec("G19", "G23")
async def test_where_there_is_no_room_for_the_record_of_a_cancelled_call_it_waits_for_it() -> None:
    begun = asyncio.Event()

    @tool(effect="write")
    async def hang() -> None:
        """Hang."""
        begun.set()
        await asyncio.sleep(60)

    @tool(effect="write")
    async def large(text: str) -> None:
        """Hang, with much to put on record."""
        begun.set()
        await asyncio.sleep(60)

    async with desk(hang, large, store=TappedStore(full_at_first())) as opened:
        for message in (
            opened.session.message("hang", {}),
            opened.session.message("large", Json(to_json({"text": "x" * MAX_RECORDED_BYTES}))),
        ):
            running = asyncio.create_task(opened.session.try_message(message))
            await begun.wait()
            begun.clear()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        await until(lambda: not opened.session._context.runtime._tasks)
        assert [(record.tool, record.outcome) for record in await opened.records()] == [
            ("hang", "cancelled"),
            ("large", "cancelled"),
        ]


@pytest.mark.spec("G19")
async def test_of_a_handler_that_never_started_no_store_that_fails_says_that_it_ran() -> None:
    def fail(phase: str) -> None:
        if phase == "outcome":
            raise StoreError("disk full")

    @tool(effect="write")
    async def late() -> None:
        """Come too late."""

    async with desk(late, store=TappedStore(fail)) as opened:
        result = await too_late(opened.session, late)
    assert isinstance(result.error, StoreError)
    assert "ran" not in result.error.message
