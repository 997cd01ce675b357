"""Running stream processors: one for a call of its own, or one for all messages of a duplex stream (spec 3, K7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from capset.definitions.contracts import Contract
from capset.errors import ToolError
from capset.evaluation.containment import is_contained
from capset.evaluation.deadline import Deadline
from capset.kernel.context import CallContext
from capset.kernel.emitter import Emitter
from capset.kernel.invocation import MISSING, Invocation
from capset.kernel.world import CLEANUP_SECONDS, stop

_log = logging.getLogger("capset.kernel")


class _Once:
    """The messages of a call: one."""

    __slots__ = ("_message",)

    def __init__(self, message: Any) -> None:
        self._message = message

    def __aiter__(self) -> _Once:
        return self

    async def __anext__(self) -> Any:
        message, self._message = self._message, MISSING
        if message is MISSING:
            raise StopAsyncIteration
        return message


async def process_one(call: Invocation, contract: Contract, factory: Callable[[], Any]) -> Any:
    """Run a fresh processor for one message. Returns its reply's data, or ``MISSING``; raises what it raises."""
    ending = Deadline(CLEANUP_SECONDS)
    emitter = Emitter(contract, ending.start_soon)
    emitter.begin(call)
    try:
        with ending:
            await factory()(_Once(call.inbound), emitter, CallContext(call))
    except TimeoutError:
        if not ending.expired:
            raise
    except Exception as error:
        if emitter.error is None:
            raise
        _log_late(call, emitter, error)
    if ending.expired:
        _log.error("tool %r did not return within %s s of its outcome", call.road.name, CLEANUP_SECONDS)
    return emitter.outcome()


class Processing:
    """A processor that runs for all messages of a duplex stream, in a task of the kernel's.

    It works on one call at a time, the one whose message it took last: taking the next ends that call, and so does
    returning. Its context is that of the call.
    """

    __slots__ = ("_contract", "_ctx", "_done", "_emitter", "_factory", "_is_finished", "_next", "_pull", "_task")

    def __init__(self, contract: Contract, factory: Callable[[], Any]) -> None:
        self._contract = contract
        self._factory = factory
        self._emitter = Emitter(contract, self._give_up_soon)
        self._task: asyncio.Task[None] | None = None
        self._ctx: CallContext | None = None
        self._next: Invocation | None = None
        """The call whose message the processor has not taken yet."""
        self._pull: asyncio.Future[None] | None = None
        """What the processor waits for while there is none."""
        self._done: asyncio.Future[None] | None = None
        """Of the call that is being worked on."""
        self._is_finished = False

    async def work_on(self, call: Invocation) -> Any:
        """Give the processor a call's message, and return its reply's data, or ``MISSING``. Raises what it raises."""
        if self._task is not None and self._task.done():
            raise ToolError(f"The processor of {call.road.name!r} has ended.", code="stream_ended", status=409)
        self._emitter.begin(call)
        done = self._done = asyncio.get_running_loop().create_future()
        self._next = call
        if self._task is None:
            self._ctx = CallContext(call)
            self._task = call.place.world.spawn(self._run(self._ctx))
        elif self._pull is not None and not self._pull.done():
            self._pull.set_result(None)
        try:
            await done
        except asyncio.CancelledError:
            await stop({self._task})
            raise
        except Exception as error:
            if self._emitter.error is None:
                raise
            _log_late(call, self._emitter, error)
        return self._emitter.outcome()

    async def finish(self) -> None:
        """Tell the processor that no more messages come, and wait until it has returned, bounded."""
        self._is_finished = True
        if self._pull is not None and not self._pull.done():
            self._pull.set_result(None)
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task}, timeout=CLEANUP_SECONDS)
            await stop({self._task} if not self._task.done() else set())

    def __aiter__(self) -> Processing:
        return self

    async def __anext__(self) -> Any:
        if self._next is None:
            self._end(None)
            while self._next is None:
                if self._is_finished:
                    raise StopAsyncIteration
                self._pull = asyncio.get_running_loop().create_future()
                await self._pull
        call, self._next = self._next, None
        if self._ctx is not None:
            self._ctx.move_to(call)
        return call.inbound

    async def _run(self, ctx: CallContext) -> None:
        try:
            await self._factory()(self, self._emitter, ctx)
        except BaseException as error:
            if not self._end(error) and not isinstance(error, asyncio.CancelledError):
                _log.error("a processor failed between two messages", exc_info=error)
            if not is_contained(error):
                raise
        else:
            self._end(None)

    def _end(self, error: BaseException | None) -> bool:
        """End the call that is being worked on, if there is one; return whether there was."""
        done, self._done = self._done, None
        if done is None or done.done():
            return False
        if error is None or (isinstance(error, asyncio.CancelledError) and self._emitter.is_over):
            done.set_result(None)
        else:
            done.set_exception(error)
        return True

    def _give_up_soon(self) -> None:
        asyncio.get_running_loop().call_later(CLEANUP_SECONDS, self._give_up, self._done)

    def _give_up(self, done: asyncio.Future[None] | None) -> None:
        """Cancel the processor if it still works on the call whose outcome it has told."""
        if done is not None and not done.done() and self._task is not None:
            self._task.cancel()


def _log_late(call: Invocation, emitter: Emitter, error: Exception) -> None:
    """Log what a processor raised after what ended its call; that is what is told."""
    if error is not emitter.error:
        _log.error("tool %r, correlation %s", call.road.name, call.correlation, exc_info=error)
