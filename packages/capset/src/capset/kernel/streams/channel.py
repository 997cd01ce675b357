"""A bounded channel from emitting calls to their receiver (spec 3, K14), cheaper than a queue of tasks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from capset.definitions.calls.messages import Message

Turn = asyncio.Future[None]
"""Done when a sender beyond the buffer may continue; cancelled when there is no receiver any more."""


class Receiver:
    """The receiving end of channels: messages of one channel in order, those of several in turns. One consumer.

    ``end()`` ends it once the remaining messages are taken; after ``leave()``, sending is cancelled.
    """

    __slots__ = ("_is_ended", "is_left", "ready", "receiver")

    def __init__(self) -> None:
        self.ready: deque[Channel] = deque()
        """The channels with messages, each once."""
        self.receiver: asyncio.Future[Message | None] | None = None
        self.is_left = False
        self._is_ended = False

    async def receive(self) -> Message | None:
        """Return the next message, or ``None`` once the receiver is ended and empty."""
        if self.ready:
            return self.take()
        if self._is_ended:
            return None
        if self.receiver is not None:
            raise RuntimeError("the messages of a call have one reader, and another is waiting")
        receiver = self.receiver = asyncio.get_running_loop().create_future()
        try:
            return await receiver
        except asyncio.CancelledError:
            if receiver.done() and not receiver.cancelled() and (delivered := receiver.result()) is not None:
                # It was handed over at that very moment: the next call must find it.
                returned = Channel(self, buffer=0)
                returned.messages.append(delivered)
                self.ready.appendleft(returned)
            raise
        finally:
            self.receiver = None

    def take(self) -> Message:
        """Return the next message of the ready channels."""
        channel = self.ready[0]
        message = channel.messages.popleft()
        channel.let_in()
        if not channel.messages:
            self.ready.popleft()
            if channel.on_drained is not None and channel.is_finished:
                channel.on_drained()
        elif len(self.ready) > 1:
            self.ready.rotate(-1)
        return message

    def end(self) -> None:
        """Declare that no channel will send any more."""
        self._is_ended = True
        self.hand(None)

    def leave(self, channels: tuple[Channel, ...] = ()) -> None:
        """Stop receiving: cancel the senders that wait in some channels, and end a waiting ``receive()``."""
        self.is_left = True
        for channel in channels:
            channel.cancel()
        self.end()

    def rest(self) -> list[Message]:
        """Return the messages that were never received."""
        messages: list[Message] = []
        while self.ready:
            messages.append(self.take())
        return messages

    def hand(self, message: Message | None) -> bool:
        """Hand a message, or ``None`` for the end, to a waiting ``receive()``; return whether there was one."""
        receiver = self.receiver
        if receiver is None or receiver.done():
            return False
        receiver.set_result(message)
        return True


class Channel:
    """One sender's channel to a receiver; it holds at most ``buffer + 1`` messages, however many send at once.

    A message handed to a waiting receiver counts as taken.
    """

    __slots__ = ("_buffer", "_receiver", "_turn", "_waiting", "is_finished", "messages", "moved", "on_drained")

    def __init__(self, receiver: Receiver, buffer: int, on_drained: Callable[[], None] | None = None) -> None:
        """``on_drained`` is called when the channel is finished and its last message was taken."""
        self._receiver = receiver
        self._buffer = buffer
        self.messages: deque[Message] = deque()
        self._turn: Turn | None = None
        """The turn of the one message beyond the buffer."""
        self._waiting: deque[tuple[Turn, Message]] = deque()
        self.is_finished = False
        self.moved = 0.0
        """When a message was last taken while others waited for their turn, in the event loop's time."""
        self.on_drained = on_drained

    def offer(self, message: Message) -> Turn | None:
        """Send a message. Returns a future to await before continuing, or ``None`` if there is room.

        Without a receiver the future is cancelled, but only in the next loop iteration: a sender that swallows its
        cancellation and sends again would otherwise let nothing else run.
        """
        receiver = self._receiver
        if receiver.is_left or self.is_finished:
            loop = asyncio.get_running_loop()
            refused: Turn = loop.create_future()
            loop.call_soon(refused.cancel)
            return refused
        if receiver.hand(message):
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
        """Send a message, and return when it is taken or the buffer has room for it."""
        turn = self.offer(message)
        if turn is not None:
            await turn

    def let_in(self) -> None:
        """Resume the sender whose message was beyond the buffer, and let the next one take its place."""
        turn = self._turn
        if turn is None:
            return
        self._turn = None
        if not turn.done():
            turn.set_result(None)
        while self._waiting:
            turn, message = self._waiting.popleft()
            if not turn.done():  # otherwise its sender was cancelled and is gone
                self.messages.append(message)
                self._turn = turn
                self.moved = asyncio.get_running_loop().time()
                return

    def finish(self, last: Message | None) -> None:
        """Add a last message, if there is one, and close: the sender is done, and waiting messages are not sent."""
        self.is_finished = True
        self.release()
        if last is not None and not self._receiver.is_left and not self._receiver.hand(last):
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
        """Let no sender wait any longer: queued messages count as sent, and senders of the others are cancelled."""
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)
        while self._waiting:
            self._waiting.popleft()[0].cancel()
