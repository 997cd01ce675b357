"""A duplex stream to one processor. Every incoming message is governed and recorded as a call (K8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from capset.definitions.calls.messages import Message
from capset.errors import InvalidArguments
from capset.kernel.call.compiled_tools import CompiledTool
from capset.kernel.call.invocation import CallStream, Invocation
from capset.kernel.call.pipeline import execute, record_never_begun, record_unfinished
from capset.kernel.call.stages.access import refusing_tool
from capset.kernel.runtime import KernelRuntime
from capset.kernel.streams.channel import Channel, Receiver
from capset.kernel.streams.emission import outcome_message
from capset.kernel.streams.processors import Processing

Ask = Callable[[Message], Invocation]
"""Creates the call for a message, without starting it."""


class Duplex:
    """``async with session.open("Chat.Room") as room: await room.send({…}); async for message in room: …``.

    All messages go to one processor, one after the other, and each has its own outcome record. ``finish()`` ends the
    input. Leaving the block cancels running work and waits for its cleanup.
    """

    __slots__ = (
        "_ask",
        "_compiled",
        "_inlet",
        "_inside",
        "_outside",
        "_processor",
        "_receiver",
        "_running",
        "_runtime",
        "_task",
    )

    def __init__(self, runtime: KernelRuntime, compiled: CompiledTool, ask: Ask) -> None:
        self._runtime = runtime
        self._compiled = compiled
        self._ask = ask
        self._inlet, self._receiver = Receiver(), Receiver()
        self._inside = Channel(self._inlet, buffer=0)
        contract = compiled.tool and compiled.tool.contract
        self._outside = Channel(self._receiver, 0 if contract is None else contract.buffer)
        self._processor = (
            Processing(contract, compiled.tool.handler) if contract is not None and compiled.tool else None
        )
        self._running: Invocation | None = None
        self._task: asyncio.Task[None] | None = None

    async def send(self, data: Any = None, *, message: Message | None = None) -> None:  # of the processor's own type
        """Send ``data`` or a complete ``message``, and wait until the stream takes it.

        Raises ``RuntimeError`` after ``finish()``, outside of ``async with`` and once the stream has ended, as it does
        when the kernel closes.
        """
        if self._task is None or self._inside.is_finished or self._inlet.is_left:
            raise RuntimeError(
                "messages are sent only inside of async with session.open(…), before finish() and before it has ended"
            )
        await self._inside.send(Message(self._compiled.kind, self._compiled.type, data) if message is None else message)

    def finish(self) -> None:
        """End the input of the processor. The stream ends once all outcomes have been read."""
        if not self._inside.is_finished:
            self._inside.is_finished = True  # pending sends are still delivered
            self._inlet.end()

    async def __aenter__(self) -> Self:
        """Open the stream. The processor is created for the first allowed message."""
        if self._task is not None:
            raise RuntimeError("a duplex stream can be entered only once")
        self._task = self._runtime.spawn(self._run(), self._settle)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel running work and wait for its cleanup."""
        self._receiver.leave((self._outside,))
        self._inlet.leave((self._inside,))
        try:
            await self._stop()
        finally:
            self._give_back()

    def __aiter__(self) -> Self:
        """Iterate over the messages, once."""
        return self

    async def __anext__(self) -> Message:
        """Return the next message. The reply or the error is the last message for each input."""
        if self._task is None:
            raise RuntimeError("enter the stream first: async with session.open(…) as room")
        message = await self._receiver.receive()
        if message is None:
            raise StopAsyncIteration
        return message

    async def _run(self) -> None:
        while (message := await self._inlet.receive()) is not None:
            call = self._call_of(message)
            self._running = call
            await execute(call)
            self._running = None
            self._outside.release()  # abandoned tasks must not keep waiting
            outcome = outcome_message(call)
            if outcome is not None:
                await self._outside.send(outcome)
        if self._processor is not None:
            await self._processor.finish()
            await self._stop()

    def _call_of(self, message: Message) -> Invocation:
        call = self._ask(message)
        call.stream = CallStream(self._outside, self._processor)
        if call.compiled.tool is not None and call.compiled.tool is not self._compiled.tool:
            wrong = f"Invalid message: this stream takes {self._compiled.type!r}, not {message.type!r}"
            call.compiled = refusing_tool(call.compiled, InvalidArguments(wrong))
        return call

    async def _stop(self) -> None:
        """Stop running work, except for the current task."""
        tasks = {self._task, self._processor and self._processor.task} - {asyncio.current_task()}
        await self._runtime.stop({task for task in tasks if task is not None and not task.done()})

    def _settle(self, task: asyncio.Task[None]) -> None:
        if self._running is not None:
            record_unfinished(self._running, task)
        if self._processor is not None:
            self._processor.end()
        self._give_back()
        self._inlet.leave()  # any later sender would wait forever
        self._outside.finish(outcome_message(self._running) if self._running else None)
        self._receiver.end()

    def _give_back(self) -> None:
        """Record the messages that were sent but whose calls never started."""
        for message in self._inlet.rest():
            record_never_begun(self._ask(message))
