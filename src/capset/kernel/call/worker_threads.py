"""Threads for sync handlers (spec 3, K15): bounded; an abandoned one holds up neither others nor the process's exit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import copy_context
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from capset.evaluation.containment import is_contained

if TYPE_CHECKING:
    from capset.kernel.call.execution import Origin

_log = logging.getLogger("capset.kernel")
AT_ONCE: Final = 32
"""Maximum number of concurrent sync handlers; others wait for their turn."""
STOP_SECONDS: Final = 3.0
"""How long to wait for a thread that was asked to stop; less than the cleanup time of a cancelled call."""


class Threads:
    """Runs each function in a daemon thread of its own. A pool would be blocked by threads that never end."""

    __slots__ = ("_turns", "abandoned")

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self.abandoned = 0
        """Number of abandoned threads."""

    async def run(
        self,
        function: Callable[[], Any],
        stop: Callable[[], object] | None = None,
        begin: Callable[[], object] | None = None,
    ) -> Any:
        """Run a function and return its result, of its own type, or raise its exception. ``begin`` is called first.

        A cancelled caller abandons its thread, and frees its slot; if there is ``stop``, it is called first and the
        wait for the thread is bounded.
        """
        async with self._turns:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[Any] = loop.create_future()
            context = copy_context()
            work = _Work(function, loop, future)
            if begin is not None:
                begin()
            Thread(target=context.run, args=(work.run,), name="capset-handler", daemon=True).start()
            try:
                return await (future if stop is None else asyncio.shield(future))
            except asyncio.CancelledError:
                if stop is not None:
                    stop()
                    await asyncio.wait([future], timeout=STOP_SECONDS)
                    if future.done():
                        future.exception()  # mark it as retrieved: no caller waits for it any more
                raise
            finally:
                self.abandoned += future.cancelled() or not future.done()


async def run_for(
    threads: Threads,
    origin: Origin,
    name: str,
    function: Callable[[], Any],
    begin: Callable[[], object] | None = None,
) -> Any:
    """Run a function of the tool or the block ``name`` as ``Threads.run`` does; an abandoned thread is reported."""
    try:
        return await threads.run(function, begin=begin)
    except asyncio.CancelledError as error:
        if not is_contained(error):
            _log.error("the thread of %r, correlation %s, is abandoned", name, origin.correlation)
        raise


class _Work:
    """One function on its thread, and the return of its outcome to the event loop."""

    __slots__ = ("_function", "_future", "_loop")

    def __init__(
        self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]
    ) -> None:
        self._function = function
        self._loop = loop
        self._future = future

    def run(self) -> None:
        try:
            result = self._function()
        except StopIteration as error:
            # A future cannot carry a StopIteration: the call would never end.
            failure = RuntimeError("the handler raised StopIteration")
            failure.__cause__ = error
            self._post_outcome(None, failure)
        except BaseException as error:
            self._post_outcome(None, error)
        else:
            self._post_outcome(result, None)

    def _post_outcome(self, result: Any, error: BaseException | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._resolve, result, error)
        except RuntimeError:
            return  # the loop is closed: the call was abandoned and reported long ago

    def _resolve(self, result: Any, error: BaseException | None) -> None:
        if self._future.done():
            return
        if error is None:
            self._future.set_result(result)
        else:
            self._future.set_exception(error)
