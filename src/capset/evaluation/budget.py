"""Time for several things to be awaited one after the other; what does not suspend costs no clock (spec 2, F17)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from functools import partial
from types import CoroutineType
from typing import Any, Generic, cast

from typing_extensions import TypeVar

T = TypeVar("T")


class OutOfTime(Exception):
    """The budget is spent."""


class Budget:
    """So many seconds. A clock is started only for what suspends: a timeout costs several microseconds."""

    __slots__ = ("_left",)

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    async def spend(self, work: Awaitable[T]) -> T:
        """Await something and return its result. Raises ``OutOfTime`` when the budget is spent before that."""
        if isinstance(work, CoroutineType):
            coroutine = cast("Coroutine[Any, Any, T]", work)
            if self._left <= 0:
                coroutine.close()
                raise OutOfTime
            try:
                first = coroutine.send(None)
            except StopIteration as done:
                return done.value
            work = _Begun(coroutine, first)
        loop = asyncio.get_running_loop()
        began, scope = loop.time(), asyncio.timeout(self._left)
        try:
            async with scope:
                result = await work
        except TimeoutError:
            if not scope.expired():
                raise
            raise OutOfTime from None
        finally:
            self._left -= loop.time() - began
        if scope.expired():  # it was cancelled, and took no notice
            raise OutOfTime
        return result


class _Begun(Generic[T]):
    """A coroutine that has taken its first step, to be awaited from there."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], first: object) -> None:
        self._coroutine = coroutine
        self._first = first

    def __await__(self) -> Generator[Any, Any, T]:
        item = self._first
        while True:
            try:
                sent = yield item
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as error:
                step = partial(self._coroutine.throw, error)
            else:
                step = partial(self._coroutine.send, sent)
            try:
                item = step()
            except StopIteration as done:
                return done.value
