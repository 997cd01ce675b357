"""Moving windows and budgets, in memory: checked and reserved in one step, with nothing in between (G13–G15)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from capset.definitions.limits import Budget, Limit
from capset.errors import BudgetExceeded

_SWEEP_EVERY: Final = 1_000
"""How many new windows come between two looks at those that are empty."""


WindowKey = tuple[str, Hashable]
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
            if self._new > _SWEEP_EVERY:
                self.sweep(now)
            known = self._windows[key] = deque[int](), limit.window * 1_000_000_000
        window, length = known
        past = now - length
        while window and window[0] <= past:
            window.popleft()
        return window

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


@dataclass(slots=True)
class Spending:
    """What has been used of a budget so far."""

    budget: Budget
    calls: int = 0
    cost: float = field(default=0.0)

    def check(self, what: str, cost: float) -> None:
        """Raise ``BudgetExceeded`` unless one more call of that cost fits. ``what`` is whose budget it is."""
        budget = self.budget
        if budget.calls is not None and self.calls >= budget.calls:
            raise BudgetExceeded(f"Budget exceeded: {what} may make {budget.calls} calls, and has made them.")
        if budget.cost is not None and self.cost + cost > budget.cost:
            left = budget.cost - self.cost
            raise BudgetExceeded(f"Budget exceeded: this costs {cost:g}, and {what} has {left:g} left.")

    def add(self, cost: float) -> None:
        """Count a call."""
        self.calls += 1
        self.cost += cost

    def take_back(self, cost: float) -> None:
        """Count a call no more, whose handler was never started."""
        self.calls -= 1
        self.cost -= cost


class Reserved(NamedTuple):
    """What one call has reserved, at ``stamp``, of windows and budgets."""

    windows: tuple[deque[int], ...]
    stamp: int
    spendings: tuple[Spending, ...]
    cost: float

    def give_back(self) -> None:
        """Count the call no more, since its handler was never started: only those that reach it count (G14)."""
        for window in self.windows:
            if self.stamp in window:
                window.remove(self.stamp)
        for spending in self.spendings:
            spending.take_back(self.cost)
