"""Model usage by agents, in memory. No task switch happens between checking and reserving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capset.clock import iso
from capset.definitions.governance.usage import AgentUsage
from capset.stores.base.usage import (
    COUNTED_DAYS,
    DAY_NS,
    HOUR,
    RETAINED_NS,
    ModelUser,
    StepClaim,
    UsageQuery,
    UsageTotals,
    UsageWindow,
    WindowUsage,
)
from capset.stores.memory.lifecycle import Lifecycle

_Parts = dict[int, tuple[int | None, AgentUsage]]
"""The parts of a window by start time: the time until which each counts, and the usage in it."""


class MemoryUsage:
    """The parts of each window that still count, and the reservations of running steps."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._windows: dict[str, _Parts] = {}
        self._reserved: dict[str, dict[str, AgentUsage]] = {}
        """The reservation of each running step, by window and step."""
        self._hours: dict[str, dict[ModelUser, AgentUsage]] = {}
        self._new = 0

    async def read(self, windows: Sequence[UsageWindow], now: int) -> list[WindowUsage]:
        self._lifecycle.check()
        none = dict[str, AgentUsage]()
        return [
            WindowUsage(self._sum(window.key, now), sum(self._reserved.get(window.key, none).values(), AgentUsage()))
            for window in windows
        ]

    async def reserve(self, claim: StepClaim, now: int) -> list[WindowUsage]:
        before = await self.read(claim.windows, now)
        if claim.has_room(before):
            for window in claim.windows:
                self._reserved.setdefault(window.key, {})[claim.step] = claim.maximum
        return before

    async def settle(self, claim: StepClaim, used: AgentUsage, now: int) -> list[WindowUsage]:
        before = await self.read(claim.windows, now)
        counted = claim.counted_usage(before, used)
        for window in claim.windows:
            steps = self._reserved.get(window.key, {})
            if steps.pop(claim.step, None) is not None and counted != AgentUsage():
                self._add(window, counted, now)
            if not steps:
                self._reserved.pop(window.key, None)
        self._sweep(now)
        return before

    async def count(self, user: ModelUser, used: AgentUsage, now: int) -> None:
        self._lifecycle.check()
        hour = iso(now)[:HOUR]
        if hour not in self._hours:
            oldest = iso(now - COUNTED_DAYS * DAY_NS)[:HOUR]
            self._hours = {hour: users for hour, users in self._hours.items() if hour >= oldest}
        users = self._hours.setdefault(hour, {})
        users[user] = users.get(user, AgentUsage()) + used

    async def totals(self, query: UsageQuery) -> UsageTotals:
        self._lifecycle.check()
        hours, agents, principals = dict[str, AgentUsage](), dict[str, AgentUsage](), dict[str, AgentUsage]()
        for hour in sorted(hour for hour in self._hours if query.since <= hour < query.until):
            for user, used in self._hours[hour].items():
                if user.org != query.org or query.agent not in (None, user.agent):
                    continue
                if query.principal in (None, user.principal):
                    principal = f"{user.principal_kind}:{user.principal}"
                    for sums, key in ((hours, hour), (agents, user.agent), (principals, principal)):
                        sums[key] = sums.get(key, AgentUsage()) + used
        return UsageTotals(tuple(hours.items()), _top(agents, query.top), _top(principals, query.top))

    def drop(self, session: str) -> None:
        """Forget the windows of a deleted session."""
        for by_window in (self._windows, self._reserved):
            for key in [key for key in by_window if key.startswith(f"{session}/")]:
                del by_window[key]

    def forget_steps(self) -> None:
        """Drop the reservations from before the store was last closed."""
        self._reserved.clear()

    def _sum(self, key: str, now: int) -> AgentUsage:
        counting = [used for ends, used in self._windows.get(key, {}).values() if ends is None or ends > now]
        return sum(counting, AgentUsage())

    def _add(self, window: UsageWindow, more: AgentUsage, now: int) -> None:
        began, ends = window.part(now)
        parts = self._windows.setdefault(window.key, {})
        self._new += began not in parts
        parts[began] = ends, parts.get(began, (ends, AgentUsage()))[1] + more

    def _sweep(self, now: int) -> None:
        """Remove expired parts, once in a while."""
        if self._new < 1_000:  # new parts
            return
        self._new = 0
        for key, parts in list(self._windows.items()):
            remaining = {began: part for began, part in parts.items() if part[0] is None or part[0] + RETAINED_NS > now}
            if remaining:
                self._windows[key] = remaining
            else:
                del self._windows[key]


def _top(sums: Mapping[str, AgentUsage], number: int) -> tuple[tuple[str, AgentUsage], ...]:
    ordered = sorted(sums.items(), key=lambda item: (-item[1].cost, -item[1].tokens, item[0]))
    return tuple(ordered[:number])
