"""A cache of recent lookups, so that a busy caller causes only one store lookup per second."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

TTL_SECONDS: Final = 1.0
"""How long a value counts as current: a key revoked by another process stays valid for up to that long."""

K = TypeVar("K")
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """A cache whose values are valid for ``seconds``. Beyond ``size``, the oldest are evicted.

    Concurrent callers that need the same key share one lookup.
    """

    def __init__(self, seconds: float = TTL_SECONDS, size: int = 1_000) -> None:
        self._seconds = seconds
        self._size = size
        self._generation = 0
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._pending: dict[K, tuple[float, asyncio.Task[tuple[float, V]]]] = {}

    async def get(self, key: K, look_up: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Return the value of ``key``, looking it up if it is missing or expired. Errors are not cached."""
        cached = self._entries.get(key)
        if cached is not None and time.monotonic() < cached[0] + self._seconds:
            return cached[1]
        return (await self.get_since(key, look_up, self._seconds))[1]

    async def get_since(self, key: K, look_up: Callable[[], Coroutine[Any, Any, V]], seconds: float) -> tuple[float, V]:
        """Return the monotonic time at which the lookup of ``key`` began, at most ``seconds`` ago, and the value."""
        now, entry = time.monotonic(), self._entries.get(key)
        if entry is not None and now < entry[0] + seconds:
            return entry
        start, task = self._pending.get(key, (0.0, None))
        if task is None or now >= start + seconds:
            task = asyncio.ensure_future(self._look_up(key, look_up, now))
            self._pending[key] = now, task
            task.add_done_callback(lambda task: self._remove_pending(key, task))
        return await asyncio.shield(task)  # a cancelled caller does not cancel the lookup

    async def _look_up(self, key: K, look_up: Callable[[], Coroutine[Any, Any, V]], start: float) -> tuple[float, V]:
        generation = self._generation  # the value may change during the lookup
        value = await look_up()
        if generation == self._generation:
            self._entries[key] = start, value
            self._entries.move_to_end(key)
            if len(self._entries) > self._size:
                self._entries.popitem(last=False)
        return start, value

    def _remove_pending(self, key: K, task: asyncio.Task[tuple[float, V]]) -> None:
        if self._pending.get(key, (0.0, None))[1] is task:
            del self._pending[key]
        if not task.cancelled():
            task.exception()  # marks it as retrieved; the waiting callers get it

    def invalidate(self, is_changed: Callable[[K, V], bool]) -> None:
        """Drop the values for which ``is_changed`` is true, and do not cache the results of pending lookups."""
        for key in [key for key, (_, value) in self._entries.items() if is_changed(key, value)]:
            del self._entries[key]
        self._pending.clear()
        self._generation += 1
