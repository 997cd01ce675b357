"""The bounded hand-off between calls and their reader."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capset import Message
from capset.kernel.streams import channel as module
from capset.kernel.streams.channel import Receiver
from tests.helpers.kernel.support import turns


def message(number: int) -> Message:
    return Message("event", "x", number)


class Channel:
    """One channel and its receiver."""

    def __init__(self, buffer: int = 0) -> None:
        self.receiver = Receiver()
        self.channel = module.Channel(self.receiver, buffer)
        self.send = self.channel.send
        self.receive = self.receiver.receive

    def finish(self, last: Message | None) -> None:
        self.channel.finish(last)
        self.receiver.end()

    def leave(self) -> None:
        self.receiver.leave((self.channel,))


async def received(channel: Channel) -> list[int]:
    numbers: list[int] = []
    while (received_message := await channel.receive()) is not None:
        numbers.append(received_message.data)
    return numbers


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
        received_message = await channel.receive()
        assert received_message
        taken.append(received_message.data)
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
        received_message = await channel.receive()
        assert received_message
        assert received_message.data == number
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
    received_message = await channel.receive()
    assert received_message
    assert received_message.data == 1
    await sending


async def test_what_was_handed_to_a_receiver_that_is_cancelled_is_there_for_the_next() -> None:
    channel = Channel()
    receiving = asyncio.create_task(channel.receive())
    await turns()
    await channel.send(message(1))  # handed over, and not looked at yet
    receiving.cancel()
    channel.finish(message(2))
    await turns()
    assert receiving.cancelled()
    assert await received(channel) == [1, 2]


@pytest.mark.spec("K14")
async def test_a_sender_that_is_cancelled_does_not_block_the_next() -> None:
    channel = Channel()
    sending = [asyncio.create_task(channel.send(message(number))) for number in range(4)]
    await turns()
    sending[0].cancel()  # what lies there already is delivered
    sending[1].cancel()  # what has not begun is not
    await turns()
    taken = [await channel.receive() for _ in range(3)]
    assert [received_message.data for received_message in taken if received_message] == [0, 2, 3]
    await asyncio.gather(*sending[2:])


@pytest.mark.spec("K10")
async def test_what_waits_when_the_sender_is_done_does_not_come_after_its_last() -> None:
    channel = Channel()
    sending = [asyncio.create_task(channel.send(message(number))) for number in range(3)]
    await turns()
    channel.finish(message(9))
    await turns()
    assert [task.cancelled() for task in sending] == [False, True, True]
    assert await received(channel) == [0, 9]


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
    receiving = asyncio.create_task(channel.receive())
    await turns()
    with pytest.raises(RuntimeError, match="one reader"):
        await channel.receive()
    channel.finish(message(1))
    received_message = await receiving
    assert received_message
    assert received_message.data == 1


async def test_once_the_receiver_has_left_senders_are_cancelled() -> None:
    channel = Channel(5)
    channel.leave()
    with pytest.raises(asyncio.CancelledError):
        await channel.send(message(1))


async def test_senders_that_wait_are_cancelled_when_the_receiver_leaves() -> None:
    channel = Channel()
    sending = [asyncio.create_task(channel.send(message(number))) for number in range(3)]
    await turns()
    channel.leave()
    await asyncio.wait(sending)
    assert all(task.cancelled() for task in sending)


@pytest.mark.spec("K14")
async def test_channels_take_turns_and_each_keeps_its_order() -> None:
    receiver, drained = Receiver(), list[str]()
    channels = {name: module.Channel(receiver, 1, lambda name=name: drained.append(name)) for name in "ab"}
    for number in range(2):
        channels["a"].offer(message(number))
    channels["b"].offer(message(10))
    assert [
        received_message.data
        for received_message in (await receiver.receive(), await receiver.receive())
        if received_message
    ] == [0, 10]
    channels["b"].finish(message(11))
    channels["a"].finish(None)
    assert drained == []
    assert [
        received_message.data
        for received_message in (await receiver.receive(), await receiver.receive())
        if received_message
    ] == [1, 11]
    assert drained == ["a", "b"]
    receiver.end()
    assert await receiver.receive() is None
