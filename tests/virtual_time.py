"""Virtual time for tests that use nothing but asyncio: when no task is ready, the clock jumps to the next timer.

A conftest or a module opts in with ``from tests.virtual_time import anyio_backend``. A sleep of an hour then ends at
once, and a sleep of 0.1 s always ends before one of 0.2 s, however busy the machine is. While the loop waits for a
thread, the clock runs in real time. Tests with other processes, or with network peers outside the loop, need real time
and the mark ``realtime``.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from capset.kernel.call import worker_threads
from capset.stores.sql.writer import batch

__all__ = ["VIRTUAL", "VirtualTimeLoop", "anyio_backend"]

_OF_THREADS: Final = frozenset(module.__file__ for module in (worker_threads, batch, asyncio.base_events))
"""Modules that create futures which threads resolve; ``base_events`` does so to shut its executor down."""

TURN_SECONDS: Final = 0.000_01
"""Virtual duration of one iteration of the loop, so that timers also expire while some task is always ready."""


class _Selector(selectors.DefaultSelector):
    """A selector that moves the clock of its loop forward instead of waiting for a timer."""

    loop: VirtualTimeLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        self.loop.now += TURN_SECONDS
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.loop.open_jobs or timeout is None:
            began = time.monotonic()
            ready = super().select(timeout)
            self.loop.now += time.monotonic() - began
            return ready
        self.loop.now += timeout
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is virtual."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.open_jobs = 0
        """Number of futures that a thread has yet to resolve."""
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    def create_future(self) -> asyncio.Future[Any]:
        future = super().create_future()
        return self._count(future) if sys._getframe(1).f_code.co_filename in _OF_THREADS else future

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return self._count(super().run_in_executor(executor, func, *args))

    def _count(self, future: asyncio.Future[Any]) -> asyncio.Future[Any]:
        self.open_jobs += 1
        future.add_done_callback(self._end_job)
        return future

    def _end_job(self, _future: object) -> None:
        self.open_jobs -= 1


VIRTUAL: Final = ("asyncio", {"loop_factory": VirtualTimeLoop})
"""Backend for AnyIO's pytest plugin: asyncio on virtual time."""


@pytest.fixture(scope="session")
def anyio_backend() -> object:
    """Run tests on a loop with virtual time."""
    return VIRTUAL
