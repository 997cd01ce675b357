"""A cache of recent lookups, so that a busy caller causes only one store lookup per second."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

SECONDS: Final = 1.0
"""How long a value counts as current: a key revoked by another process stays valid for up to that long."""
_SIZE: Final = 1_000

K = TypeVar("K")
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """A cache whose values are valid for ``seconds``. Beyond ``size``, the oldest are evicted.

    Concurrent callers that need the same key share one lookup.
    """

    def __init__(self, seconds: float = SECONDS, size: int = _SIZE) -> None:
        self._seconds = seconds
        self._size = size
        self._forgotten = 0
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._under_way: dict[K, tuple[float, asyncio.Task[tuple[float, V]]]] = {}

    async def get(self, key: K, look_up: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return the value of ``key``, looking it up if it is missing or expired. Errors are not cached."""
        cached = self._kept.get(key)
        if cached is not None and time.monotonic() < cached[0] + self._seconds:
            return cached[1]
        return (await self.get_since(key, look_up, self._seconds))[1]

    async def get_since(self, key: K, look_up: Callable[[], Coroutine[Any, Any, V]], seconds: float) -> tuple[float, V]:
        """Return the monotonic time at which the lookup of ``key`` began, at most ``seconds`` ago, and the value."""
        now, entry = time.monotonic(), self._kept.get(key)
        if entry is not None and now < entry[0] + seconds:
            return entry
        start, task = self._under_way.get(key, (0.0, None))
        if task is None or now >= start + seconds:
            task = asyncio.ensure_future(self._look_up(key, look_up, now))
            self._under_way[key] = now, task
            task.add_done_callback(lambda done: self._end(key, done))
        return await asyncio.shield(task)  # a cancelled caller does not cancel the lookup

    async def _look_up(self, key: K, look_up: Callable[[], Coroutine[Any, Any, V]], start: float) -> tuple[float, V]:
        before = self._forgotten  # the value may change during the lookup
        value = await look_up()
        if before == self._forgotten:
            self._kept[key] = start, value
            self._kept.move_to_end(key)
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return start, value

    def _end(self, key: K, done: asyncio.Task[tuple[float, V]]) -> None:
        if self._under_way.get(key, (0.0, None))[1] is done:
            del self._under_way[key]
        if not done.cancelled():
            done.exception()  # marks it as retrieved; the waiting callers get it

    def forget(self, is_changed: Callable[[K, V], bool]) -> None:
        """Drop the values for which ``is_changed`` is true, and do not cache the results of pending lookups."""
        for key in [key for key, (_, value) in self._kept.items() if is_changed(key, value)]:
            del self._kept[key]
        self._under_way.clear()
        self._forgotten += 1
