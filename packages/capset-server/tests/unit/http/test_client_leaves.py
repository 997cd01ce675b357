"""Noticing that a client leaves, and nothing else."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message

from capset_server.http.bodies import ClientLeft, DisconnectWatch
from tests.waiting import moment

pytestmark = pytest.mark.spec("P9")


async def leave() -> Message:
    return {"type": "http.disconnect"}


async def watched(ended: asyncio.Event | None = None) -> None:
    with DisconnectWatch(leave):
        try:
            await asyncio.Event().wait()
        finally:
            if ended is not None:
                ended.set()


async def test_the_work_of_a_client_that_leaves_ends_in_gone_and_its_task_goes_on() -> None:
    ended = asyncio.Event()
    with pytest.raises(ClientLeft):
        await asyncio.wait_for(watched(ended), 60)
    assert ended.is_set()
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(ClientLeft):
        await watched()
    assert task.cancelling() == 0, "nobody asked this task to end"
    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(failing())


async def failing() -> None:
    raise ValueError


async def test_what_is_cancelled_by_somebody_else_is_cancelled() -> None:
    is_watched = asyncio.Event()

    async def stay() -> Message:
        is_watched.set()
        await asyncio.Event().wait()
        return {"type": "http.request"}

    async def work() -> None:
        with DisconnectWatch(stay):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await is_watched.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_fails_fails_although_its_client_left_too() -> None:
    async def work() -> None:
        with DisconnectWatch(leave):
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        await work()


async def test_work_that_is_done_is_watched_no_more() -> None:
    with DisconnectWatch(leave):
        await asyncio.sleep(0)
    await moment(0.1)
