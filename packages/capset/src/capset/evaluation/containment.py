"""Containment of user code: its errors, its deadline, and its hooks, which never affect the event (F23, K13)."""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError, current_task
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Final

from typing_extensions import TypeVar

HOOK_SECONDS: Final = 5.0
"""Time limit of one hook, in seconds. A hook that exceeds it is cancelled, and the failure is logged."""

_log = logging.getLogger("capset.hooks")
E = TypeVar("E")


def is_contained(error: BaseException) -> bool:
    """Whether an error is that of the user code, and must not reach the host.

    False for a cancellation from outside and for errors that end the interpreter. True for a ``CancelledError`` without
    a cancellation request, and for ``SystemExit``: a function that an agent calls must not end its host.
    """
    match error:
        case CancelledError():
            task = current_task()
            return task is not None and not task.cancelling()
        case BaseExceptionGroup():
            _, rest = error.split((Exception, SystemExit, CancelledError))
            return rest is None
        case _:
            return isinstance(error, (Exception, SystemExit))


class Deadline:
    """Cancels the task inside ``with`` when the time is up, and turns that cancellation into a ``TimeoutError``.

    It costs about half as much as ``asyncio.timeout``: the timer begins with ``start``, which code that never waits
    need not call. ``stop`` pauses the timer. ``expired`` is true once the time is up, even if the code ignored its
    cancellation.
    """

    __slots__ = ("_cancelling", "_handle", "_loop", "_remaining", "_task", "expired")

    def __init__(self, seconds: float) -> None:
        self.expired = False
        self._remaining = seconds
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> Deadline:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        task, self._task = self._task, None
        if (
            self.expired
            and task is not None
            and task.uncancel() <= self._cancelling
            and isinstance(error, asyncio.CancelledError)
        ):
            raise TimeoutError from error

    def start(self) -> None:
        """Start the timer, or resume it after ``stop``. Does nothing if it is running or has expired."""
        if self._handle is None and not self.expired:
            self._loop = asyncio.get_running_loop()
            self._handle = self._loop.call_later(self._remaining, self._expire)

    def start_soon(self) -> None:
        """Start the timer in the next iteration of the event loop. Code that has left by then pays for no timer."""
        asyncio.get_running_loop().call_soon(self._start_inside)

    def _start_inside(self) -> None:
        if self._task is not None:
            self.start()

    def stop(self) -> bool:
        """Pause the timer, and return whether it was running."""
        if self._handle is None:
            return False
        self._handle.cancel()
        self._remaining, self._handle = self._handle.when() - self._loop.time(), None
        return True

    def _expire(self) -> None:
        self._handle = None
        if self._task is not None and not self._task.done():
            self.expired = True
            self._task.cancel()


async def dispatch_hooks(functions: Iterable[Callable[[E], Awaitable[None] | None]], event: E) -> None:
    """Call and await each function with the event. An error in one is logged, and does not stop the others.

    Raises only a cancellation from outside.
    """
    for function in functions:
        try:
            pending = function(event)
            if pending is not None:
                async with asyncio.timeout(HOOK_SECONDS):
                    await pending
        except BaseException as error:
            if not is_contained(error):
                raise
            _log.exception("the hook %s failed on %s", name_of(function), type(event).__name__)


def name_of(function: Callable[..., object]) -> str:
    """Return a function's name for logs."""
    return getattr(function, "__qualname__", None) or type(function).__name__
