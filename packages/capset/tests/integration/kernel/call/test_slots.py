"""Slots: a kernel lets only so many calls do the same heavy thing at once."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from capset import Context, tool
from capset.errors import DeadlineExceeded, DefinitionError
from capset.ext import slot
from tests.helpers.kernel.support import desk
from tests.virtual_time import anyio_backend
from tests.waiting import until

__all__ = ["anyio_backend"]

inside: list[int] = []


@tool(effect="read")
async def dig(ctx: Context, seconds: float = 0.01, at_once: int = 2, what: str = "digging") -> int:
    """Dig, and tell how many did at the same time."""
    async with slot(ctx, what, at_once=at_once):
        inside.append(1)
        try:
            await asyncio.sleep(seconds)
            return len(inside)
        finally:
            inside.pop()


async def test_no_more_than_so_many_are_inside_and_everybody_gets_in() -> None:
    async with desk(dig) as opened:
        counts = await asyncio.gather(*(opened.session.call(dig) for _ in range(9)))
    assert len(counts) == 9
    assert max(counts) <= 2


@pytest.mark.realtime
async def test_who_waits_does_so_within_its_own_time_and_all_who_share_the_places_say_the_same_number() -> None:
    async with desk(dig) as opened:
        long = asyncio.create_task(opened.session.call(dig, seconds=0.3, at_once=1))
        await until(lambda: inside)
        with pytest.raises(DeadlineExceeded):
            await opened.session.options(timeout=0.05).call(dig, at_once=1)
        assert not (await opened.session.try_call(dig, at_once=2)).success
        assert await opened.session.call(dig, at_once=2, what="filling in") == 2
        assert await long == 1
        assert await opened.session.call(dig, at_once=1) == 1


async def test_it_takes_a_context_of_the_kernels_and_a_number_that_lets_somebody_in() -> None:
    with pytest.raises(DefinitionError, match="the Context that a handler is given"):
        async with slot(cast("Context", object()), "digging", at_once=1):
            pass
    async with desk(dig) as opened:
        assert not (await opened.session.try_call(dig, at_once=0)).success
