"""A cache of recent lookups, so that a busy caller costs the store one lookup per second."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

SECONDS: Final = 1.0
"""How long a lookup counts as current: a key that another process revokes stays valid for that long."""
_SIZE: Final = 1_000

K = TypeVar("K")
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """Values by key, each valid for ``seconds``; the oldest are evicted beyond ``size``."""

    def __init__(self, seconds: float = SECONDS, size: int = _SIZE) -> None:
        self._seconds = seconds
        self._size = size
        self._forgotten = 0
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    async def get(self, key: K, look_up: Callable[[], Awaitable[V]]) -> V:
        """Return the value of ``key``, looking it up if it is too old. Errors are not cached."""
        kept = self._kept.get(key)
        if kept is not None and time.monotonic() < kept[0]:
            return kept[1]
        before, asked = self._forgotten, time.monotonic()  # what is found may have changed since it was asked for
        value = await look_up()
        if before != self._forgotten:
            return value  # something changed in the meantime, perhaps this
        self._kept[key] = asked + self._seconds, value
        self._kept.move_to_end(key)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return value

    def forget(self, is_changed: Callable[[K, V], bool]) -> None:
        """Drop the values that changed, and do not cache the lookups under way."""
        for key in [key for key, (_, value) in self._kept.items() if is_changed(key, value)]:
            del self._kept[key]
        self._forgotten += 1
