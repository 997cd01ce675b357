"""The usage of models by agents, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from capset.definitions.usage import AgentUsage
from capset.stores.base.usage import RETAINED, UsageWindow
from capset.stores.memory.lifecycle import Lifecycle

_SWEEP_EVERY: Final = 1_000
"""Number of new parts between two removals of those that count no more."""
_Parts = dict[int, tuple[int | None, AgentUsage]]
"""The parts of a window by their beginnings: until when each counts, and what was used in it."""


class MemoryUsage:
    """The parts of each window that count still."""

    def __init__(self, door: Lifecycle) -> None:
        self._door = door
        self._windows: dict[str, _Parts] = {}
        self._new = 0

    async def read(self, windows: Sequence[UsageWindow], now: int) -> list[AgentUsage]:
        """Return what was used in each of the windows until now."""
        self._door.check()
        return [self._sum(window.key, now) for window in windows]

    async def add(self, windows: Sequence[UsageWindow], more: AgentUsage, now: int) -> list[AgentUsage]:
        """Count more in each of the windows, and return what was used in each."""
        self._door.check()
        for window in windows:
            began, ends = window.part(now)
            parts = self._windows.setdefault(window.key, {})
            self._new += began not in parts
            parts[began] = ends, parts.get(began, (ends, AgentUsage()))[1] + more
        self._sweep(now)
        return [self._sum(window.key, now) for window in windows]

    def drop(self, session: str) -> None:
        """Forget the windows of a deleted session."""
        for key in [one for one in self._windows if one.startswith(f"{session}/")]:
            del self._windows[key]

    def _sum(self, key: str, now: int) -> AgentUsage:
        counting = [used for ends, used in self._windows.get(key, {}).values() if ends is None or ends > now]
        return sum(counting, AgentUsage())

    def _sweep(self, now: int) -> None:
        """Forget, now and then, the parts that count no more."""
        if self._new < _SWEEP_EVERY:
            return
        self._new = 0
        for key, parts in list(self._windows.items()):
            kept = {began: part for began, part in parts.items() if part[0] is None or part[0] + RETAINED > now}
            if kept:
                self._windows[key] = kept
            else:
                del self._windows[key]
