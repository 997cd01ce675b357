"""Moving windows of one process: checked and reserved in one step, with nothing in between (G13–G15)."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from capset.definitions.limits import Limit

_SWEEP_EVERY: Final = 1_000
"""How many new windows come between two looks at those that are empty."""


WindowKey = tuple[str, tuple[str, ...]]
"""Whose calls of what count together: the tool's own name and its limit, as text, and whose."""


class Quotas:
    """The windows of one kernel. A time is in nanoseconds of its monotonic clock."""

    __slots__ = ("_new", "_windows")

    def __init__(self) -> None:
        self._windows: dict[WindowKey, tuple[deque[int], int]] = {}
        """Each with its length in nanoseconds."""
        self._new = 0

    def window(self, key: WindowKey, limit: Limit, now: int) -> deque[int]:
        """Return when the calls that count now were made, the oldest first."""
        known = self._windows.get(key)
        if known is None:
            self._new += 1
            known = self._windows[key] = deque[int](), limit.window * 1_000_000_000
        window, length = known
        past = now - length
        while window and window[0] <= past:
            window.popleft()
        return window

    def tidy(self, now: int) -> None:
        """Forget, now and then, the windows in which nothing counts; nobody may hold one that is empty."""
        if self._new > _SWEEP_EVERY:
            self.sweep(now)

    def sweep(self, now: int) -> None:
        """Forget the windows in which nothing counts any more."""
        self._new = 0
        for key, (window, length) in list(self._windows.items()):
            if not window or window[-1] <= now - length:
                del self._windows[key]

    def __len__(self) -> int:
        return len(self._windows)


def seconds_left(window: deque[int], limit: Limit, now: int) -> float | None:
    """Return the seconds after which one more call fits, to the millisecond, rounded up; ``None`` if one fits now."""
    over = len(window) - limit.requests
    if over < 0:
        return None
    left = window[over] + limit.window * 1_000_000_000 - now
    return -(-left // 1_000_000) / 1_000


class Reserved(NamedTuple):
    """What one call has reserved, at ``stamp``, of the windows of its process."""

    windows: tuple[deque[int], ...]
    stamp: int

    def give_back(self) -> None:
        """Count the call no more, since its handler was never started: only those that reach it count (G14)."""
        for window in self.windows:
            if self.stamp in window:
                window.remove(self.stamp)
