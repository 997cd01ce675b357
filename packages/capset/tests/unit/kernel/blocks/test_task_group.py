from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from capset.kernel.blocks.runs import run_concurrently
from tests.virtual_time import anyio_backend

__all__ = ["anyio_backend"]


def after(seconds: float, outcome: object) -> Callable[[], Coroutine[Any, Any, object]]:
    async def work() -> object:
        await asyncio.sleep(seconds)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return work


async def test_results_stand_under_their_names_in_the_order_that_was_given() -> None:
    done = await run_concurrently({"slow": after(0.01, 1), "fast": after(0, 2)})
    assert list(done.items()) == [("slow", 1), ("fast", 2)]


async def test_the_first_failure_is_raised_as_it_is_and_nothing_goes_on() -> None:
    first, second = ValueError("first"), KeyError("second")
    ended: list[str] = []

    async def watched() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("watched")
            raise OSError("while cleaning up")

    with pytest.raises(ValueError, match="first") as raised:
        await run_concurrently({"watched": watched, "later": after(30, second), "first": after(0, first)})
    assert raised.value is first
    assert ended == ["watched"]


async def test_of_two_that_fail_at_once_the_one_that_stands_first_is_raised() -> None:
    with pytest.raises(KeyError):
        await run_concurrently({"a": after(0, KeyError()), "b": after(0, ValueError())})


async def test_a_cancellation_from_outside_ends_all_of_them() -> None:
    ended: list[int] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    task = asyncio.create_task(run_concurrently({"a": work, "b": work}))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [1, 1]
