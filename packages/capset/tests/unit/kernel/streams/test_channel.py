"""The bounded hand-off between calls and their reader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import Message
from capset.kernel.streams import channel as module
from capset.kernel.streams.channel import Receiver
from tests.helpers.kernel.support import turns


def message(number: int) -> Message:
    return Message("event", "x", number)


async def take(receiver: Receiver) -> int:
    received_message = await receiver.receive()
    assert received_message
    return received_message.data


class Channel:
    def __init__(self, buffer: int = 0) -> None:
        self.receiver = Receiver()
        self.channel = module.Channel(self.receiver, buffer)
        self.send = self.channel.send

    def sending(self, numbers: Iterable[int]) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.send(message(number))) for number in numbers]

    async def receiving(self) -> asyncio.Task[Message | None]:
        """Begin to wait for a message."""
        task = asyncio.create_task(self.receiver.receive())
        await turns()
        return task

    async def rest(self) -> list[int]:
        numbers: list[int] = []
        while (received_message := await self.receiver.receive()) is not None:
            numbers.append(received_message.data)
        return numbers

    def finish(self, last: Message | None) -> None:
        self.channel.finish(last)
        self.receiver.end()

    def leave(self) -> None:
        self.receiver.leave((self.channel,))


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
        taken.append(await take(channel.receiver))
        await turns(3)
    assert started == min(count, len(taken) + buffer + 1)
    assert taken + await channel.rest() == list(range(count))
    await sending


@pytest.mark.spec("K14")
async def test_several_senders_share_the_bound_and_lose_nothing() -> None:
    channel = Channel(2)
    sending = channel.sending(range(10))
    await turns()
    assert sum(task.done() for task in sending) == 2
    for number in range(10):
        assert await take(channel.receiver) == number
        await turns()
        assert sum(task.done() for task in sending) == min(10, 3 + number)


async def test_finish_wakes_a_receiver_that_waits() -> None:
    channel = Channel()
    receiving = await channel.receiving()
    channel.finish(None)
    assert await receiving is await channel.receiver.receive() is None


async def test_a_receiver_that_is_cancelled_takes_nothing_with_it() -> None:
    channel = Channel()
    receiving = await channel.receiving()
    (sending,) = channel.sending([1])
    receiving.cancel()
    await turns()
    assert await take(channel.receiver) == 1
    await sending


async def test_what_was_handed_to_a_receiver_that_is_cancelled_is_there_for_the_next() -> None:
    channel = Channel()
    receiving = await channel.receiving()
    await channel.send(message(1))  # handed over, and not looked at yet
    receiving.cancel()
    channel.finish(message(2))
    await turns()
    assert receiving.cancelled()
    assert await channel.rest() == [1, 2]


@pytest.mark.spec("K14")
async def test_a_sender_that_is_cancelled_does_not_block_the_next() -> None:
    channel = Channel()
    sending = channel.sending(range(4))
    await turns()
    sending[0].cancel()  # what lies there already is delivered
    sending[1].cancel()  # what has not begun is not
    await turns()
    assert [await take(channel.receiver) for _ in range(3)] == [0, 2, 3]
    await asyncio.gather(*sending[2:])


@pytest.mark.spec("K10")
async def test_what_waits_when_the_sender_is_done_does_not_come_after_its_last() -> None:
    channel = Channel()
    sending = channel.sending(range(3))
    await turns()
    channel.finish(message(9))
    await turns()
    assert [task.cancelled() for task in sending] == [False, True, True]
    assert await channel.rest() == [0, 9]


async def test_one_that_swallows_its_cancellation_and_sends_again_does_not_hold_up_the_loop() -> None:
    channel, tries = Channel(), list[int]()
    channel.leave()

    async def send() -> None:
        while len(tries) < 1_000:
            try:
                await channel.send(message(0))
            except asyncio.CancelledError:
                tries.append(1)

    sending = asyncio.create_task(send())
    await turns()
    assert 1 <= len(tries) <= 20
    await sending


async def test_there_is_one_receiver() -> None:
    channel = Channel()
    receiving = await channel.receiving()
    with pytest.raises(RuntimeError, match="one reader"):
        await channel.receiver.receive()
    channel.finish(message(1))
    assert await receiving == message(1)


async def test_senders_are_cancelled_when_the_receiver_leaves_and_once_it_has_left() -> None:
    channel = Channel()
    sending = channel.sending(range(3))
    await turns()
    channel.leave()
    sending += channel.sending([3])
    await asyncio.wait(sending)
    assert all(task.cancelled() for task in sending)


@pytest.mark.spec("K14")
async def test_channels_take_turns_and_each_keeps_its_order() -> None:
    receiver, drained = Receiver(), list[str]()
    first, second = (module.Channel(receiver, 1, lambda name=name: drained.append(name)) for name in "ab")
    for number in range(2):
        first.offer(message(number))
    second.offer(message(10))
    assert [await take(receiver) for _ in range(2)] == [0, 10]
    second.finish(message(11))
    first.finish(None)
    assert drained == []
    assert [await take(receiver) for _ in range(2)] == [1, 11]
    assert drained == ["a", "b"]
    receiver.end()
    assert await receiver.receive() is None
