"""A bounded channel from emitting calls to their receiver (spec 3, K14), cheaper than a queue of tasks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from capset.definitions.calls.messages import Message

Turn = asyncio.Future[None]
"""Resolves when a sender blocked by a full buffer may continue; cancelled when the receiver is gone."""


class Receiver:
    """The receiving end of one or more channels, for a single consumer.

    Messages of one channel keep their order; several channels are read in turn. After ``end()``, the remaining messages
    can still be received; after ``leave()``, senders are cancelled.
    """

    __slots__ = ("_is_ended", "is_left", "ready", "waiter")

    def __init__(self) -> None:
        self.ready: deque[Channel] = deque()
        """The channels that have messages, each listed once."""
        self.waiter: asyncio.Future[Message | None] | None = None
        self.is_left = False
        self._is_ended = False

    async def receive(self) -> Message | None:
        """Return the next message, or ``None`` once the receiver is ended and empty."""
        if self.ready:
            return self.take()
        if self._is_ended:
            return None
        if self.waiter is not None:
            raise RuntimeError("messages can have only one reader, and another is already waiting")
        waiter = self.waiter = asyncio.get_running_loop().create_future()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and (delivered := waiter.result()) is not None:
                # A message was delivered just before the cancellation: keep it for the next call.
                returned = Channel(self, buffer=0)
                returned.messages.append(delivered)
                self.ready.appendleft(returned)
            raise
        finally:
            self.waiter = None

    def take(self) -> Message:
        """Return the next message of the ready channels."""
        channel = self.ready[0]
        message = channel.messages.popleft()
        channel.admit_next()
        if not channel.messages:
            self.ready.popleft()
            if channel.on_drained is not None and channel.is_finished:
                channel.on_drained()
        elif len(self.ready) > 1:
            self.ready.rotate(-1)
        return message

    def end(self) -> None:
        """End the stream: no channel will send any more messages."""
        self._is_ended = True
        self.deliver(None)

    def leave(self, channels: tuple[Channel, ...] = ()) -> None:
        """Stop receiving: cancel the senders that wait in ``channels``, and end a pending ``receive()``."""
        self.is_left = True
        for channel in channels:
            channel.cancel()
        self.end()

    def drain(self) -> list[Message]:
        """Remove and return the messages that were never received."""
        messages: list[Message] = []
        while self.ready:
            messages.append(self.take())
        return messages

    def deliver(self, message: Message | None) -> bool:
        """Deliver a message, or ``None`` for the end, to a pending ``receive()``; return whether there was one."""
        waiter = self.waiter
        if waiter is None or waiter.done():
            return False
        waiter.set_result(message)
        return True


class Channel:
    """A channel to a receiver. It holds at most ``buffer + 1`` messages, however many tasks send at once.

    A message delivered to a waiting receiver counts as taken.
    """

    __slots__ = ("_buffer", "_receiver", "_turn", "_waiting", "is_finished", "messages", "moved_at", "on_drained")

    def __init__(self, receiver: Receiver, buffer: int, on_drained: Callable[[], None] | None = None) -> None:
        """``on_drained`` is called when the channel is finished and its last message has been taken."""
        self._receiver = receiver
        self._buffer = buffer
        self.messages: deque[Message] = deque()
        self._turn: Turn | None = None
        """The future of the sender whose message is the one beyond the buffer."""
        self._waiting: deque[tuple[Turn, Message]] = deque()
        self.is_finished = False
        self.moved_at = 0.0
        """When a waiting message last moved into the channel, in the event loop's time."""
        self.on_drained = on_drained

    def offer(self, message: Message) -> Turn | None:
        """Send a message. Returns a future to await before continuing, or ``None`` if there is room.

        If the receiver has left or the channel is finished, the future is cancelled, but only in the next loop
        iteration: otherwise a sender that swallows its cancellation and sends again would block the loop.
        """
        receiver = self._receiver
        if receiver.is_left or self.is_finished:
            loop = asyncio.get_running_loop()
            refused: Turn = loop.create_future()
            loop.call_soon(refused.cancel)
            return refused
        if receiver.deliver(message):
            return None
        queued = len(self.messages)
        if queued > self._buffer:
            turn: Turn = asyncio.get_running_loop().create_future()
            self._waiting.append((turn, message))
            return turn
        self.messages.append(message)
        if not queued:
            receiver.ready.append(self)
        if queued < self._buffer:
            return None
        turn = self._turn = asyncio.get_running_loop().create_future()
        return turn

    async def send(self, message: Message) -> None:
        """Send a message, and wait until it is taken or the buffer has room for it."""
        turn = self.offer(message)
        if turn is not None:
            await turn

    def admit_next(self) -> None:
        """Resume the sender whose message was beyond the buffer, and move the next waiting message into the channel."""
        turn = self._turn
        if turn is None:
            return
        self._turn = None
        if not turn.done():
            turn.set_result(None)
        while self._waiting:
            turn, message = self._waiting.popleft()
            if not turn.done():  # otherwise its sender was cancelled
                self.messages.append(message)
                self._turn = turn
                self.moved_at = asyncio.get_running_loop().time()
                return

    def finish(self, last: Message | None) -> None:
        """Send a last message, if there is one, and close the channel; waiting messages are dropped."""
        self.is_finished = True
        self.release()
        if last is not None and not self._receiver.is_left and not self._receiver.deliver(last):
            self.messages.append(last)
            if len(self.messages) == 1:
                self._receiver.ready.append(self)
        if not self.messages and self.on_drained is not None:
            self.on_drained()

    def cancel(self) -> None:
        """Cancel the waiting senders."""
        if self._turn is not None:
            self._turn.cancel()
        self.release()

    def release(self) -> None:
        """Unblock all senders: those whose messages are in the channel continue, the others are cancelled."""
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)
        while self._waiting:
            self._waiting.popleft()[0].cancel()
