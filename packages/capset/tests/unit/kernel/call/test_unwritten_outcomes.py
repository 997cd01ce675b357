"""Outcomes that the store does not take at once: they are on record in the end, or callers hear of it (G19, G23)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from pydantic_core import to_json

from capset import Json, tool
from capset.errors import StoreError
from capset.kernel.governance.redaction import MAX_RECORDED_BYTES
from tests.helpers.evaluation.things import make
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
    look = make("look")
    async with desk(look, store=TappedStore(full_at_first())) as opened:
        assert await opened.session.call(look) == "look"
        assert (await opened.record()).outcome == "succeeded"


@pytest.mark.spec("G19", "G23")
async def test_where_there_is_no_room_for_the_record_of_a_cancelled_call_it_waits_for_it() -> None:
    begun = asyncio.Event()

    @tool(effect="write")
    async def hang(text: str) -> None:
        """Hang."""
        begun.set()
        await asyncio.sleep(60)

    async with desk(hang, store=TappedStore(full_at_first())) as opened:
        for size in (1, MAX_RECORDED_BYTES):
            message = opened.session.message("hang", Json(to_json({"text": "x" * size})))
            running = asyncio.create_task(opened.session.try_message(message))
            await begun.wait()
            begun.clear()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        await until(lambda: not opened.session._context.runtime._tasks)
        assert [record.outcome for record in await opened.records()] == ["cancelled"] * 2


@pytest.mark.spec("G19")
async def test_of_a_handler_that_never_started_no_store_that_fails_says_that_it_ran() -> None:
    def fail(phase: str) -> None:
        if phase == "outcome":
            raise StoreError("disk full")

    late = make("late", effect="write")
    async with desk(late, store=TappedStore(fail)) as opened:
        result = await too_late(opened.session, late)
    assert isinstance(result.error, StoreError)
    assert "ran" not in result.error.message
