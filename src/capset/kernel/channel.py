"""A bounded hand-off between a call that emits and whoever listens (spec 3, K14), cheaper than a queue of tasks."""

from __future__ import annotations

import asyncio
from collections import deque

from capset.definitions.messages import Message


class Channel:
    """Messages in order, each taken once. A sender that is ahead by more than ``buffer`` messages waits.

    One receiver. ``finish()`` lets it take what is there and then ends it; once it has left, senders are cancelled.
    """

    __slots__ = ("_buffer", "_closed", "_messages", "_receiver", "_senders")

    def __init__(self, buffer: int = 0) -> None:
        self._buffer = buffer
        self._messages: deque[Message] = deque()
        self._senders: deque[asyncio.Future[None]] = deque()
        self._receiver: asyncio.Future[None] | None = None
        self._closed = False

    async def send(self, message: Message) -> None:
        """Hand a message over, and return when it is taken or the buffer has room for it."""
        if self._closed:
            raise asyncio.CancelledError("nobody reads these messages any more")
        self._messages.append(message)
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)
        if len(self._messages) > self._buffer:
            turn = asyncio.get_running_loop().create_future()
            self._senders.append(turn)
            await turn

    def finish(self, last: Message | None) -> None:
        """Add a last message, if there is one, and close: the sender is done and need not wait."""
        if last is not None:
            self._messages.append(last)
        self._closed = True
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    def leave(self) -> None:
        """Say that nobody will receive any more."""
        self._closed = True

    async def receive(self) -> Message | None:
        """Return the next message, or ``None`` once the channel is closed and empty."""
        if self._receiver is not None:
            raise RuntimeError("the messages of a call have one reader, and another is waiting")
        while not self._messages:
            if self._closed:
                return None
            self._receiver = asyncio.get_running_loop().create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None
        message = self._messages.popleft()
        while self._senders:
            turn = self._senders.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        return message
