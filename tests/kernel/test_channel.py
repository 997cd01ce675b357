"""The bounded hand-off between a call and its reader."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import Message
from capset.kernel.channel import Channel
from tests.kernel.support import turns


def message(number: int) -> Message:
    return Message("event", "x", number)


async def received(channel: Channel) -> list[int]:
    found: list[int] = []
    while (one := await channel.receive()) is not None:
        found.append(one.data)
    return found


@pytest.mark.spec("K14")
@settings(max_examples=40, deadline=None)
@given(buffer=st.integers(0, 5), count=st.integers(0, 12), takes=st.integers(0, 12))
async def test_a_sender_is_never_further_ahead_than_the_buffer_and_one(buffer: int, count: int, takes: int) -> None:
    channel = Channel(buffer)
    started = 0

    async def send() -> None:
        nonlocal started
        for number in range(count):
            started += 1
            await channel.send(message(number))
        channel.finish(None)

    sending = asyncio.create_task(send())
    await turns(3 * count + 3)
    taken: list[int] = []
    for _ in range(min(takes, count)):
        assert started - len(taken) <= buffer + 1
        one = await channel.receive()
        assert one
        taken.append(one.data)
        await turns(3)
    assert started == min(count, len(taken) + buffer + 1)
    assert taken + await received(channel) == list(range(count))
    await sending


@pytest.mark.spec("K14")
async def test_several_senders_share_the_bound_and_lose_nothing() -> None:
    channel = Channel(2)
    waiting = {asyncio.create_task(channel.send(message(number))) for number in range(10)}
    await turns()
    assert sum(task.done() for task in waiting) == 2
    for number in range(10):
        one = await channel.receive()
        assert one
        assert one.data == number
        await turns()
        assert sum(task.done() for task in waiting) == min(10, 3 + number)


async def test_finish_lets_the_receiver_take_what_is_there_and_a_last_one() -> None:
    channel = Channel(5)
    await channel.send(message(1))
    channel.finish(message(2))
    assert await received(channel) == [1, 2]
    assert await channel.receive() is None


async def test_finish_wakes_a_receiver_that_waits() -> None:
    channel = Channel()
    receiving = asyncio.create_task(channel.receive())
    await turns()
    channel.finish(None)
    assert await receiving is None


async def test_a_receiver_that_is_cancelled_takes_nothing_with_it() -> None:
    channel = Channel()
    receiving = asyncio.create_task(channel.receive())
    await turns()
    sending = asyncio.create_task(channel.send(message(1)))
    receiving.cancel()
    await turns()
    one = await channel.receive()
    assert one
    assert one.data == 1
    await sending


async def test_a_sender_that_is_cancelled_does_not_block_the_next() -> None:
    channel = Channel()
    first = asyncio.create_task(channel.send(message(1)))
    second = asyncio.create_task(channel.send(message(2)))
    await turns()
    first.cancel()
    await turns()
    for number in (1, 2):
        one = await channel.receive()
        assert one
        assert one.data == number
    await second


async def test_there_is_one_receiver() -> None:
    channel = Channel()
    receiving = asyncio.create_task(channel.receive())
    await turns()
    with pytest.raises(RuntimeError, match="one reader"):
        await channel.receive()
    channel.finish(message(1))
    one = await receiving
    assert one
    assert one.data == 1


async def test_once_the_receiver_has_left_senders_are_cancelled() -> None:
    channel = Channel(5)
    channel.leave()
    with pytest.raises(asyncio.CancelledError):
        await channel.send(message(1))
