"""A duplex stream to one processor. Every incoming message is governed and recorded as a call (K8)."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

from capset.definitions.calls.messages import Message
from capset.errors import InvalidArguments
from capset.kernel.call.compiled_tools import CompiledTool
from capset.kernel.call.invocation import CallStream, Invocation
from capset.kernel.call.pipeline import execute, record_never_started, record_unfinished
from capset.kernel.call.stages.access import refusing_tool
from capset.kernel.runtime import KernelRuntime
from capset.kernel.streams.channel import Channel, Receiver
from capset.kernel.streams.emission import outcome_message
from capset.kernel.streams.messages import CallFactory, buffer_of
from capset.kernel.streams.processors import DuplexProcessor


class Duplex:
    """``async with session.open("Chat.Room") as room: await room.send({…}); async for message in room: …``.

    All messages go to one processor, one after the other, and each has its own outcome record. ``finish()`` ends the
    input. Leaving the block cancels running work and waits for its cleanup.
    """

    __slots__ = (
        "_compiled",
        "_input",
        "_input_receiver",
        "_make_call",
        "_output",
        "_output_receiver",
        "_processor",
        "_running",
        "_runtime",
        "_task",
    )

    def __init__(self, runtime: KernelRuntime, compiled: CompiledTool, make_call: CallFactory) -> None:
        self._runtime = runtime
        self._compiled = compiled
        self._make_call = make_call
        self._input_receiver, self._output_receiver = Receiver(), Receiver()
        self._input = Channel(self._input_receiver, buffer=0)
        self._output = Channel(self._output_receiver, buffer_of(compiled))
        contract = compiled.tool and compiled.tool.contract
        self._processor = (
            DuplexProcessor(contract, compiled.tool.handler) if contract is not None and compiled.tool else None
        )
        self._running: Invocation | None = None
        self._task: asyncio.Task[None] | None = None

    async def send(self, data: Any = None, *, message: Message | None = None) -> None:  # of the processor's own type
        """Send ``data`` or a complete ``message``, and wait until the stream takes it.

        Raises ``RuntimeError`` after ``finish()``, outside of ``async with`` and once the stream has ended, as it does
        when the kernel closes.
        """
        if self._task is None or self._input.is_finished or self._input_receiver.is_left:
            raise RuntimeError(
                "messages are sent only inside of async with session.open(…), before finish() and before it has ended"
            )
        await self._input.send(Message(self._compiled.kind, self._compiled.type, data) if message is None else message)

    def finish(self) -> None:
        """End the input of the processor. The stream ends once all outcomes have been read."""
        if not self._input.is_finished:
            self._input.is_finished = True  # pending sends are still delivered
            self._input_receiver.end()

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
        self._output_receiver.leave((self._output,))
        self._input_receiver.leave((self._input,))
        try:
            await self._stop()
        finally:
            self._record_unstarted()

    def __aiter__(self) -> Self:
        """Iterate over the messages, once."""
        return self

    async def __anext__(self) -> Message:
        """Return the next message. The reply or the error is the last message for each input."""
        if self._task is None:
            raise RuntimeError("enter the stream first: async with session.open(…) as room")
        message = await self._output_receiver.receive()
        if message is None:
            raise StopAsyncIteration
        return message

    async def _run(self) -> None:
        while (message := await self._input_receiver.receive()) is not None:
            call = self._create_call(message)
            self._running = call
            await execute(call)
            self._running = None
            self._output.release()  # abandoned tasks must not keep waiting
            outcome = outcome_message(call)
            if outcome is not None:
                await self._output.send(outcome)
        if self._processor is not None:
            await self._processor.aclose()
            await self._stop()

    def _create_call(self, message: Message) -> Invocation:
        call = self._make_call(message)
        call.stream = CallStream(self._output, self._processor)
        if call.compiled.tool is not None and call.compiled.tool is not self._compiled.tool:
            error = InvalidArguments(
                f"Invalid message: this stream takes {self._compiled.type!r}, not {message.type!r}"
            )
            call.compiled = refusing_tool(call.compiled, error)
        return call

    async def _stop(self) -> None:
        """Stop running work, except for the current task."""
        tasks = {self._task, self._processor and self._processor.task} - {asyncio.current_task()}
        await self._runtime.stop({task for task in tasks if task is not None and not task.done()})

    def _settle(self, task: asyncio.Task[None]) -> None:
        if self._running is not None:
            record_unfinished(self._running, task)
        if self._processor is not None:
            self._processor.close_input()
        self._record_unstarted()
        self._input_receiver.leave()  # any later sender would wait forever
        self._output.finish(outcome_message(self._running) if self._running else None)
        self._output_receiver.end()

    def _record_unstarted(self) -> None:
        """Record the messages that were sent but whose calls never started."""
        for message in self._input_receiver.drain():
            record_never_started(self._make_call(message))
