"""Execution of stream processors: one per call, or one for all messages of a duplex stream (spec 3, K7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import ContextVar
from types import CoroutineType
from typing import Any

from pydantic import BaseModel

from capset.definitions.calls.messages import Message
from capset.definitions.tools.contracts import Contract
from capset.errors import ToolError
from capset.evaluation.containment import Deadline, is_contained
from capset.kernel.call.context import CallContext
from capset.kernel.call.errors import is_cancelled, is_handler_error
from capset.kernel.call.invocation import MISSING, Invocation
from capset.kernel.runtime import CLEANUP_SECONDS
from capset.kernel.streams.emission import Emitter
from capset.kernel.telemetry.observers import notify_attach

_log = logging.getLogger("capset.kernel")
_CURRENT_CALL: ContextVar[Invocation | None] = ContextVar("capset_working", default=None)
"""The call whose message a duplex stream's processor had taken last when it started the current task."""


class _SingleMessage:
    """An async iterator over the single message of a call."""

    __slots__ = ("_message",)

    def __init__(self, message: Any) -> None:
        self._message = message

    def __aiter__(self) -> _SingleMessage:
        return self

    async def __anext__(self) -> Any:
        message, self._message = self._message, MISSING
        if message is MISSING:
            raise StopAsyncIteration
        return message


async def process_one(call: Invocation, contract: Contract, factory: Callable[[], Any]) -> Any:
    """Run a new processor for one message, and return its reply's data, or ``MISSING``; its exceptions propagate."""
    ending = Deadline(CLEANUP_SECONDS)
    emitter = Emitter(contract, ending.start_soon)
    emitter.begin(call)
    try:
        with ending:
            await factory()(_SingleMessage(call.arguments.inbound), emitter, CallContext(call))
    except BaseException as error:
        if ending.expired and isinstance(error, TimeoutError | asyncio.CancelledError):
            if isinstance(error, asyncio.CancelledError) and is_cancelled(call):
                raise
        elif emitter.error is not None and is_handler_error(call, error):
            _log_late(call, emitter, error)
        else:
            raise
    finally:
        emitter.close()
    if ending.expired:
        _log_lingering(call)
    return emitter.outcome()


class DuplexProcessor:
    """A processor that runs for all messages of a duplex stream, in a kernel task.

    It works on one call at a time: that of the last message it took. The call ends when the processor takes the next
    message, or returns. The processor's context is that of the current call.
    """

    __slots__ = (
        "_contract",
        "_ctx",
        "_done",
        "_emitter",
        "_factory",
        "_is_over",
        "_next",
        "_next_ready",
        "_timer",
        "task",
    )

    def __init__(self, contract: Contract, factory: Callable[[], Any]) -> None:
        self._contract = contract
        self._factory = factory
        self._emitter = _DuplexEmitter(contract, self._schedule_stop)
        self.task: asyncio.Task[None] | None = None
        """The task of the processor, started with the first message."""
        self._ctx: CallContext | None = None
        self._next: Invocation | None = None
        """The call whose message the processor has not taken yet."""
        self._next_ready: asyncio.Future[None] | None = None
        """Awaited by the processor while there is no message."""
        self._done: asyncio.Future[None] | None = None
        """Done when the current call has ended."""
        self._timer: asyncio.TimerHandle | None = None
        """Ends the current call if the processor keeps running after the outcome."""
        self._is_over = False

    def implements(self, contract: Contract) -> bool:
        """Whether this processor implements ``contract``."""
        return self._contract is contract

    async def process(self, call: Invocation) -> Any:
        """Pass a call's message to the processor; return its reply's data, or ``MISSING``. Its exceptions propagate."""
        if self._is_over or (self.task is not None and self.task.done()):
            raise _ended_error(call)
        self._emitter.begin(call)
        done = self._done = asyncio.get_running_loop().create_future()
        self._next = call
        if self.task is None:
            self._ctx = CallContext(call)
            self.task = call.context.runtime.spawn(self._run(self._ctx))
        elif self._next_ready is not None and not self._next_ready.done():
            self._next_ready.set_result(None)
        try:
            await done
        except asyncio.CancelledError:
            self._is_over = True
            runtime = call.context.runtime
            if not runtime.is_stopping():  # otherwise the processor is stopped together with the stream
                await runtime.stop({self.task})
            raise
        except BaseException as error:
            if self._emitter.error is None or not is_contained(error):
                raise
            _log_late(call, self._emitter, error)
        return self._emitter.outcome()

    def close_input(self) -> None:
        """End the input of the processor."""
        self._is_over = True
        if self._next_ready is not None and not self._next_ready.done():
            self._next_ready.set_result(None)

    async def aclose(self) -> None:
        """End the input of the processor, and wait up to ``CLEANUP_SECONDS`` for it to return."""
        self.close_input()
        if self.task is not None and not self.task.done():
            await asyncio.wait({self.task}, timeout=CLEANUP_SECONDS)

    def __aiter__(self) -> DuplexProcessor:
        return self

    async def __anext__(self) -> Any:
        if self._next is None:
            self._end(None)
            while self._next is None:
                if self._is_over:
                    raise StopAsyncIteration
                self._next_ready = asyncio.get_running_loop().create_future()
                await self._next_ready
        call, self._next = self._next, None
        if self._ctx is not None:
            self._ctx.origin = call
        _CURRENT_CALL.set(call)
        if call.observer_states:
            notify_attach(call)
        return call.arguments.inbound

    async def _run(self, ctx: CallContext) -> None:
        _CURRENT_CALL.set(None)  # the stream may itself have been opened by a processor
        try:
            await self._factory()(self, self._emitter, ctx)
        except BaseException as error:
            if not self._end(error) and not isinstance(error, asyncio.CancelledError):
                _log.error("a processor failed between two messages", exc_info=error)
            if not is_contained(error):
                raise
        else:
            untaken = self._next
            self._end(None if untaken is None or self._emitter.is_over else _ended_error(untaken))

    def _end(self, error: BaseException | None) -> bool:
        """End the current call, if there is one; return whether there was."""
        done, self._done = self._done, None
        is_over = self._emitter.is_over
        self._emitter.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if done is None or done.done():
            return False
        if error is None or (isinstance(error, asyncio.CancelledError) and is_over):
            done.set_result(None)
        else:
            done.set_exception(error)
        return True

    def _schedule_stop(self) -> None:
        if self._timer is None and self._done is not None:
            loop, call = asyncio.get_running_loop(), self._emitter.call
            self._timer = loop.call_later(CLEANUP_SECONDS, self._stop_lingering, call)

    def _stop_lingering(self, call: Invocation) -> None:
        """Stop a processor that is still working on a call after emitting its outcome."""
        if self.task is not None:
            _log_lingering(call)
            self._is_over = True
            call.context.runtime.spawn(self._stop(call, self.task))

    async def _stop(self, call: Invocation, task: asyncio.Task[None]) -> None:
        await call.context.runtime.stop({task})
        self._end(None)


class _DuplexEmitter(Emitter):
    """The ``emit`` of a duplex stream. A task left over from one message cannot emit for the next."""

    __slots__ = ()

    def __call__(self, message: BaseModel | Message, /) -> CoroutineType[Any, Any, None]:
        current = _CURRENT_CALL.get()
        return super().__call__(message) if current is None or current is self.call else self._raise_closed()

    async def _raise_closed(self) -> None:
        await asyncio.sleep(0)
        raise self.closed_error()


def _ended_error(call: Invocation) -> ToolError:
    return ToolError(f"The processor of {call.compiled.name!r} has ended.", code="stream_ended", status=409)


def _log_late(call: Invocation, emitter: Emitter, error: BaseException) -> None:
    """Log an exception raised after the error that ended the call: the caller only gets that error."""
    if error is not emitter.error:
        _log.error("tool %r, correlation %s", call.compiled.name, call.correlation, exc_info=error)


def _log_lingering(call: Invocation) -> None:
    _log.error("tool %r did not return within %s s of its outcome", call.compiled.name, CLEANUP_SECONDS)
