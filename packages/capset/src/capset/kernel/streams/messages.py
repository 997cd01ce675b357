"""A call as a stream of messages: events while it runs, and the reply or error that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from capset.definitions.calls.messages import Message
from capset.definitions.tools.definition import AnyTool
from capset.kernel.call.compiled_tools import CompiledTool
from capset.kernel.call.dispatch import to_result
from capset.kernel.call.invocation import CallStream, Invocation
from capset.kernel.call.pipeline import execute, record_unfinished
from capset.kernel.results import Result
from capset.kernel.streams.channel import Channel, Receiver
from capset.kernel.streams.emission import outcome_message


class Messages:
    """A running call: ``async with session.stream(…) as messages: async for message in messages: …``.

    The call starts on entry, in a kernel task. It runs ahead of its reader by at most one message, plus the buffer of
    its processor (spec 3, K14). Leaving early cancels the call, which is recorded, and waits for its cleanup.
    """

    __slots__ = ("_call", "_channel", "_receiver", "_task")

    def __init__(self, call: Invocation) -> None:
        self._call = call
        self._receiver = Receiver()
        self._channel = Channel(self._receiver, buffer_of(call.compiled))
        call.stream = CallStream(self._channel)
        self._task: asyncio.Task[None] | None = None

    @property
    def tool(self) -> str:
        """The name of the called tool, as in its record."""
        return self._call.compiled.name

    @property
    def called(self) -> AnyTool | None:
        """The called tool, or ``None`` if there is no tool of that name. Dynamic ``uses`` may have added it."""
        return self._call.compiled.tool

    @property
    def record(self) -> str:
        """The id of the call's record."""
        return self._call.id

    @property
    def correlation(self) -> str:
        """The id that ties the call to its cause."""
        return self._call.correlation

    @property
    def has_ended(self) -> bool:
        """Whether the call has its outcome, so that ``result`` is available."""
        return self._call.outcome_entry is not None

    @property
    def result(self) -> Result[Any]:
        """The result of the call, available once its messages have been read. Its data has the tool's own type."""
        if self._call.outcome_entry is None:
            raise RuntimeError("the call has not ended yet: read its messages first")
        return to_result(self._call, self._call.value)

    async def __aenter__(self) -> Self:
        """Start the call."""
        if self._task is not None:
            raise RuntimeError("a stream can be entered only once: create a new one for each call")
        self._task = self._call.context.runtime.spawn(execute(self._call), self._settle)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the call if it has not ended, and wait for its cleanup."""
        self._receiver.leave((self._channel,))
        if self._task is not None and not self._task.done():
            await self._call.context.runtime.stop({self._task})

    def __aiter__(self) -> Self:
        """Iterate over the messages, once."""
        return self

    async def __anext__(self) -> Message:
        """Return the next message. The last one is the reply or the error, if there is one."""
        if self._task is None:
            raise RuntimeError("enter the stream first: async with session.stream(…) as messages")
        receiver = self._receiver
        message = receiver.take() if receiver.ready else await receiver.receive()
        if message is None:
            raise StopAsyncIteration
        return message

    def _settle(self, task: asyncio.Task[None]) -> None:
        record_unfinished(self._call, task)
        self._channel.finish(outcome_message(self._call))
        self._receiver.end()


CallFactory = Callable[[Message], Invocation]
"""Creates the call for a message, without starting it."""


def buffer_of(compiled: CompiledTool) -> int:
    """Return the buffer size of a channel for calls of a tool, not counting the one message whose sender waits."""
    contract = compiled.tool and compiled.tool.contract
    return 0 if contract is None else contract.buffer
