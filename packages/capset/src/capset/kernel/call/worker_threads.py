"""Bounded threads for sync handlers (spec 3, K15); an abandoned one delays neither others nor the process's exit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from threading import Thread
from typing import Any, Final

from capset.errors import NoFreeSlot
from capset.kernel.call.fair_slots import FairSlots, Owner

MAX_THREADS: Final = 64
"""Maximum number of threads; other sync handlers wait for their turn (``FairSlots``)."""
START_SECONDS: Final = 60.0
"""How long a function waits for a thread before it is refused."""
STOP_SECONDS: Final = 3.0
"""How long to wait for a thread that was asked to stop; less than the cleanup time of a cancelled call."""


class Threads:
    """Runs each function in a daemon thread of its own. A pool would be blocked by threads that never end.

    A thread occupies its slot until it ends, even if its caller was cancelled and has abandoned it.
    """

    __slots__ = ("_slots", "abandoned", "abandoned_running")

    def __init__(self) -> None:
        self._slots = FairSlots(MAX_THREADS)
        self.abandoned = 0
        """Number of abandoned threads so far."""
        self.abandoned_running = 0
        """Number of abandoned threads that have not ended."""

    @property
    def running(self) -> int:
        """Number of threads that have not ended."""
        return self._slots.occupied

    @property
    def waiting(self) -> int:
        """Number of functions that wait for a thread."""
        return self._slots.waiting

    async def run(
        self,
        owner: Owner,
        function: Callable[[], Any],
        stop: Callable[[], object] | None = None,
        begin: Callable[[], object] | None = None,
    ) -> Any:
        """Run a function in a thread and return its result, or raise its exception. ``begin`` is called first.

        A cancelled caller abandons its thread; with ``stop``, it calls that first and waits for the thread for at most
        ``STOP_SECONDS``. Raises ``NoFreeSlot`` if no thread is free for its owner within ``START_SECONDS``.
        """
        if not self._slots.try_acquire(owner):
            try:
                async with asyncio.timeout(START_SECONDS):
                    await self._slots.acquire(owner)
            except TimeoutError:
                raise no_free_thread() from None
        work = _Work(self, owner, function)
        context = copy_context()
        if begin is not None:
            begin()
        try:
            Thread(target=context.run, args=(work.run,), name="capset-handler", daemon=True).start()
        except BaseException:
            self._slots.release(owner)
            raise
        future = work.future
        try:
            return await (future if stop is None else asyncio.shield(future))
        except asyncio.CancelledError:
            if stop is not None and not work.has_ended:
                stop()
                await asyncio.wait([future], timeout=STOP_SECONDS)
                if future.done():
                    future.exception()  # mark it as retrieved: no caller waits for it any more
            raise
        finally:
            if not work.has_ended:
                work.is_abandoned = True
                self.abandoned += 1
                self.abandoned_running += 1

    def end(self, work: _Work) -> None:
        """Release the slot of a thread that has ended."""
        self.abandoned_running -= work.is_abandoned
        self._slots.release(work.owner)


def no_free_thread() -> NoFreeSlot:
    """Return the error for a function that waited too long for a thread."""
    return NoFreeSlot(
        f"No thread became free in time: at most {MAX_THREADS} sync handlers run at once, shared between all callers; "
        "try again later."
    )


class _Work:
    """One function on its thread; it passes its outcome to the event loop."""

    __slots__ = ("_function", "_loop", "_threads", "future", "has_ended", "is_abandoned", "owner")

    def __init__(self, threads: Threads, owner: Owner, function: Callable[[], Any]) -> None:
        self._threads = threads
        self._function = function
        self._loop = asyncio.get_running_loop()
        self.owner = owner
        self.future: asyncio.Future[Any] = self._loop.create_future()
        self.has_ended = False
        self.is_abandoned = False

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
        self.has_ended = True
        self._threads.end(self)
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)
