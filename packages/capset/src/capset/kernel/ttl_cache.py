"""A cache of recent lookups, so that a busy caller costs the store one lookup per second."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

SECONDS: Final = 1.0
"""How long a lookup counts as current: a key that another process revokes stays valid for that long."""
_SIZE: Final = 1_000

K = TypeVar("K")
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values by key, each valid for ``seconds``; the oldest are evicted beyond ``size``.

    Those who ask for a value at the same time share one lookup.
    """

    def __init__(self, seconds: float = SECONDS, size: int = _SIZE) -> None:
        self._seconds = seconds
        self._size = size
        self._forgotten = 0
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._under_way: dict[K, tuple[float, asyncio.Task[tuple[float, V]]]] = {}

    async def get(self, key: K, look_up: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return the value of ``key``, looking it up if it is too old. Errors are not cached."""
        cached = self._kept.get(key)
        if cached is not None and time.monotonic() < cached[0] + self._seconds:
            return cached[1]
        return (await self.get_since(key, look_up, self._seconds))[1]

    async def get_since(self, key: K, look_up: Callable[[], Coroutine[Any, Any, V]], seconds: float) -> tuple[float, V]:
        """Return when ``key`` was looked up, by the monotonic clock and at most ``seconds`` ago, and its value."""
        now, entry = time.monotonic(), self._kept.get(key)
        if entry is not None and now < entry[0] + seconds:
            return entry
        start, task = self._under_way.get(key, (0.0, None))
        if task is None or now >= start + seconds:
            task = asyncio.ensure_future(self._look_up(key, look_up, now))
            self._under_way[key] = now, task
            task.add_done_callback(lambda done: self._end(key, done))
        return await asyncio.shield(task)  # a caller that is cancelled does not cancel the lookup

    async def _look_up(self, key: K, look_up: Callable[[], Coroutine[Any, Any, V]], start: float) -> tuple[float, V]:
        before = self._forgotten  # what is found may have changed since it was asked for
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
            done.exception()  # those who wait for it have the error

    def forget(self, is_changed: Callable[[K, V], bool]) -> None:
        """Drop the values that changed, and do not cache the lookups under way."""
        for key in [key for key, (_, value) in self._kept.items() if is_changed(key, value)]:
            del self._kept[key]
        self._under_way.clear()
        self._forgotten += 1
