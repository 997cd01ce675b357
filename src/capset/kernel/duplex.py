"""A duplex stream to one processor: messages go in, each governed and on record, and messages come out (K8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from capset.definitions.messages import Message
from capset.kernel.channel import Lane, Outlet
from capset.kernel.emission import outcome_message
from capset.kernel.invocation import Invocation, Road
from capset.kernel.pipeline import never_begun, travel
from capset.kernel.processing import Processing
from capset.kernel.world import World, stop

Ask = Callable[[Message], Invocation]
"""Makes the call of a message; nothing of it has begun."""


class Duplex:
    """``async with session.open("Chat.Room") as room: await room.send({…}); async for message in room: …``.

    All messages go to one processor, one after the other, and each leaves its own outcome record. ``finish()`` says
    that no more come. Leaving cancels what is not done, and waits for its cleanup.
    """

    __slots__ = ("_ask", "_inlet", "_inside", "_outlet", "_outside", "_road", "_task", "_world")

    def __init__(self, world: World, road: Road, ask: Ask) -> None:
        self._world = world
        self._road = road
        self._ask = ask
        self._inlet, self._outlet = Outlet(), Outlet()
        self._inside = Lane(self._inlet)
        contract = road.tool and road.tool.contract
        self._outside = Lane(self._outlet, 0 if contract is None else contract.buffer)
        self._task: asyncio.Task[None] | None = None

    async def send(self, data: Any = None, *, message: Message | None = None) -> None:  # of the processor's own type
        """Send a message with this data, or a whole one; return when its turn has come.

        Raises ``RuntimeError`` after ``finish()``, and outside of ``async with``.
        """
        if self._task is None or self._inside.is_finished:
            raise RuntimeError("messages are sent inside of async with session.open(…), and before finish()")
        kind = self._road.tool.kind if self._road.tool else "command"
        await self._inside.send(Message(kind, self._road.type, data) if message is None else message)

    def finish(self) -> None:
        """Say that no more messages come: the processor's input ends, and the stream when all outcomes are read."""
        if not self._inside.is_finished:
            self._inside.finish(None)
            self._inlet.end()

    async def __aenter__(self) -> Self:
        """Open the stream; the processor is made when the first message that is let through comes."""
        if self._task is not None:
            raise RuntimeError("a duplex stream is entered once")
        self._task = self._world.spawn(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what is not done, and wait for its cleanup."""
        self._outlet.leave((self._outside,))
        self._inlet.leave((self._inside,))
        if self._task is not None and not self._task.done():
            await stop({self._task})
        while self._inside.messages:  # handed over, and never begun
            never_begun(self._ask(self._inside.messages.popleft()))

    def __aiter__(self) -> Self:
        """Iterate over the messages that come, once."""
        return self

    async def __anext__(self) -> Message:
        """Return the next message; a reply or an error is the last of what a message that was sent leads to."""
        message = await self._outlet.receive()
        if message is None:
            raise StopAsyncIteration
        return message

    async def _run(self) -> None:
        contract, processor = self._road.tool and self._road.tool.contract, None
        if contract is not None and self._road.tool is not None:
            processor = Processing(contract, self._road.tool.handler)
        try:
            while (message := await self._inlet.receive()) is not None:
                call = self._ask(message)
                call.lane, call.processor = self._outside, processor
                await travel(call)
                outcome = outcome_message(call)
                if outcome is not None:
                    await self._outside.send(outcome)
            if processor is not None:
                await processor.finish()
        finally:
            self._outside.finish(None)
            self._outlet.end()
