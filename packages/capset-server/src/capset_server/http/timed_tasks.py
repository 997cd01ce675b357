"""Tasks and threads whose processor time is charged to the caller that they work for (spec 5, P35)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context
from time import perf_counter, thread_time
from types import TracebackType
from typing import Any, Final, TypeVar

from capset_server.http.fair_shares import CURRENT, Share

T = TypeVar("T")

BRIEF_SECONDS: Final = 0.001
"""Steps up to here are charged by the clock: it costs less than the processor time, and they did not wait for long."""


class LoopIterations:
    """The number of the event loop's current iteration, as far as timed steps run in it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_counted = False
        self.number = 0

    def count(self) -> None:
        """Have the next iteration counted."""
        if not self._is_counted:
            self._is_counted = True
            self._loop.call_soon(self._begin, context=Context())

    def _begin(self) -> None:
        self._is_counted = False
        self.number += 1


class TimedCoroutine(Coroutine[Any, Any, Any]):
    """A task's coroutine whose steps are charged to the share of its context.

    Once the organisation has used its part of an iteration of the loop, a step waits for the next one: however many
    tasks of one are ready at once, the loop looks for the requests of others in between.
    """

    __slots__ = ("__qualname__", "_coroutine", "_iterations")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], iterations: LoopIterations) -> None:
        self._coroutine = coroutine
        self._iterations = iterations
        self.__qualname__ = getattr(coroutine, "__qualname__", "coroutine")

    def __getattr__(self, name: str) -> Any:  # any attribute of the coroutine, such as cr_frame
        return getattr(self._coroutine, name)

    def __await__(self) -> Any:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        if (share := CURRENT.get()) is not None and share.has_had_its_part(self._iterations.number):
            return None  # as a bare yield: the task goes on in the next iteration
        started, used = perf_counter(), thread_time()
        try:
            return self._coroutine.send(value)
        finally:
            if (share := CURRENT.get()) is not None:
                now = perf_counter()
                took = now - started
                seconds = took if took < BRIEF_SECONDS else thread_time() - used
                share.charge(seconds, now)
                share.use_iteration(seconds, self._iterations.number)
                self._iterations.count()

    def throw(self, typ: Any, val: BaseException | object = None, tb: TracebackType | None = None) -> Any:
        started = thread_time()
        try:
            return self._coroutine.throw(typ) if val is None else self._coroutine.throw(typ, val, tb)
        finally:
            del typ, val, tb  # or the error holds itself by its traceback, until the collector of cycles comes
            if (share := CURRENT.get()) is not None:
                share.charge(thread_time() - started, perf_counter())

    def close(self) -> None:
        self._coroutine.close()


class TimedThreads(ThreadPoolExecutor):
    """The loop's own threads; what they do is charged to the share of the context that asks for it."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Have a function run, and its processor time charged. A charge that another thread makes at once may be lost.

        A lost one is a fraction of a millisecond; a lock would cost every step of every task more.
        """
        if (share := CURRENT.get()) is None:
            return super().submit(fn, *args, **kwargs)
        return super().submit(_run_charged, share, fn, *args, **kwargs)


def _run_charged(share: Share, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    started = thread_time()
    try:
        return function(*args, **kwargs)
    finally:
        share.charge(thread_time() - started, perf_counter())


@contextmanager
def timed_tasks() -> Generator[None]:
    """Time the steps of tasks that are made while inside, and the loop's threads.

    Nothing is timed in a loop that has a task factory already.
    """
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is not None:
        yield
        return
    loop.set_task_factory(_factory(LoopIterations(loop)))
    threads = TimedThreads(thread_name_prefix="capset-loop")
    loop.set_default_executor(threads)
    try:
        yield
    finally:
        loop.set_task_factory(None)
        loop.set_default_executor(ThreadPoolExecutor())
        threads.shutdown(wait=False)


def _factory(iterations: LoopIterations) -> Callable[..., asyncio.Task[Any]]:
    def make(
        loop: asyncio.AbstractEventLoop, coroutine: Any, *, context: Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        return asyncio.Task(TimedCoroutine(coroutine, iterations), loop=loop, context=context, **options)

    return make
