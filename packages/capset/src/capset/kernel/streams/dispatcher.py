"""Serving of a mixed stream of messages, whose invocations run concurrently up to a limit (spec 3, K8, K14)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator
from types import TracebackType
from typing import Self

from capset.definitions.calls.messages import Message
from capset.kernel.call.invocation import CallStream, Invocation
from capset.kernel.call.pipeline import execute, record_unfinished
from capset.kernel.runtime import KernelRuntime
from capset.kernel.streams.channel import Channel, Receiver
from capset.kernel.streams.emission import outcome_message
from capset.kernel.streams.messages import CallFactory, buffer_of

_log = logging.getLogger("capset.kernel")


class Dispatcher:
    """``async with kernel.run(session, messages) as answers: async for message in answers: …``.

    Every command and query becomes an invocation, whose messages arrive in order. Messages of other kinds pass through
    unchanged (K12). An invocation counts towards ``limit`` until its last message has been read, which bounds the total
    output. Leaving the block cancels running invocations and waits for their cleanup.
    """

    __slots__ = (
        "_calls",
        "_capacity_waiter",
        "_failure",
        "_is_read",
        "_limit",
        "_make_call",
        "_messages",
        "_reader",
        "_receiver",
        "_running",
        "_runtime",
    )

    def __init__(
        self, runtime: KernelRuntime, make_call: CallFactory, messages: AsyncIterable[Message], limit: int
    ) -> None:
        self._runtime = runtime
        self._make_call = make_call
        self._messages = messages
        self._limit = limit
        self._receiver = Receiver()
        self._calls: dict[asyncio.Task[None], Invocation] = {}
        self._running = 0
        self._capacity_waiter: asyncio.Future[None] | None = None
        self._is_read = False
        self._failure: Exception | None = None
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start reading the messages."""
        if self._reader is not None:
            raise RuntimeError("a stream of messages can be served only once")
        self._reader = self._runtime.spawn(self._read(), self._runtime.readers.discard)
        self._runtime.readers.add(self._reader)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop reading, cancel running invocations, and wait for their cleanup."""
        self._receiver.leave(tuple(call.channel for call in self._calls.values() if call.channel))
        await self._runtime.stop({task for task in (self._reader, *self._calls) if task and not task.done()})

    def cancel(self) -> None:
        """Stop reading, and cancel running invocations; the error of each is still delivered as its last message."""
        self._runtime.cancel(task for task in (self._reader, *self._calls) if task is not None)

    def __aiter__(self) -> Self:
        """Iterate over the output, once."""
        return self

    async def __anext__(self) -> Message:
        """Return the next message. An exception raised by the input is re-raised here, after all earlier messages."""
        if self._reader is None:
            raise RuntimeError("enter the stream first: async with kernel.run(…) as answers")
        message = await self._receiver.receive()
        if message is not None:
            return message
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        raise StopAsyncIteration

    async def _read(self) -> None:
        messages = None
        try:
            messages = aiter(self._messages)
            await self._serve(messages)
        except Exception as error:  # from the caller's iterator, so it is raised where the caller reads
            self._fail(error)
        except asyncio.CancelledError as error:
            if self._runtime.is_stopping():
                raise
            self._fail(RuntimeError("the source of the messages was cancelled"), error)
        finally:
            try:
                if (close := getattr(messages, "aclose", None)) is not None:
                    await close()
            except Exception as error:
                self._fail(error)
            finally:
                self._is_read = True
                self._end_if_done()

    async def _serve(self, messages: AsyncIterator[Message]) -> None:
        passthrough = Channel(self._receiver, buffer=0)
        async for message in messages:
            if self._receiver.is_left:  # this task swallowed its cancellation
                return
            if getattr(message, "kind", "command") not in ("command", "query"):
                await passthrough.send(message)
                continue
            if self._running >= self._limit:
                self._capacity_waiter = asyncio.get_running_loop().create_future()
                await self._capacity_waiter
            self._start(message)

    def _fail(self, error: Exception, cause: BaseException | None = None) -> None:
        """Store the first error of the input for the reader. Log later ones, and all once the reader has left."""
        if cause is not None:
            error.__cause__ = cause
        if self._failure is None and not self._receiver.is_left:
            self._failure = error
        else:
            _log.error("reading a stream of messages failed", exc_info=error)

    def _start(self, message: Message) -> None:
        call = self._make_call(message)
        call.stream = CallStream(Channel(self._receiver, buffer_of(call.compiled), self._record_drained))
        self._running += 1
        self._calls[self._runtime.spawn(execute(call), self._record_ended)] = call

    def _record_ended(self, task: asyncio.Task[None]) -> None:
        call = self._calls.pop(task)
        record_unfinished(call, task)
        if call.channel is not None:
            call.channel.finish(outcome_message(call))

    def _record_drained(self) -> None:
        self._running -= 1
        if self._capacity_waiter is not None and not self._capacity_waiter.done():
            self._capacity_waiter.set_result(None)
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._is_read and not self._running:
            self._receiver.end()
