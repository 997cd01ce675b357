"""Admissions in memory: nothing suspends between checking and counting."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from capset.stores.base.admissions import ApprovalTaken, Claim, QuotaSpent, Refused, WindowFull
from capset.stores.base.audit import Entry
from capset.stores.memory.approvals import MemoryApprovals
from capset.stores.memory.audit import MemoryAudit
from capset.stores.memory.lifecycle import Lifecycle

_SWEEP_EVERY: Final = 1_000
"""Number of new windows between two removals of expired ones."""
_TRACED: Final = 1_000
"""Number of calls of a budget that are traced; a release comes right after its call."""


@dataclass(slots=True)
class _Spent:
    calls: int = 0
    cost: float = 0.0


class MemoryAdmissions:
    """The calls in each window, the newest last, and the used amounts of each budget."""

    def __init__(self, door: Lifecycle, audit: MemoryAudit, approvals: MemoryApprovals) -> None:
        self._door = door
        self._audit = audit
        self._approvals = approvals
        self._windows: dict[str, tuple[int, deque[tuple[int, str]]]] = {}
        """Each with its length, in nanoseconds."""
        self._spent: dict[str, _Spent] = {}
        self._traces: dict[str, deque[str]] = {}
        """The calls that used a budget or an approval, by key."""
        self._new = 0

    async def look(self, claim: Claim) -> Refused | None:
        """Return the reason why a call would not be admitted now by its windows and budgets."""
        self._door.check()
        return self._refusal(claim, claim.clock())

    async def admit(self, claim: Claim, intent: Entry | None) -> None:
        """Count a call, use up its approval, and write its intent. Raises ``Refused`` and ``StoreError``."""
        self._door.check()
        now = claim.clock()
        if (refused := self._refusal(claim, now)) is not None:
            raise refused
        approval = claim.approval
        if approval is not None and not await self._approvals.move(replace(approval, status="used"), "approved"):
            raise ApprovalTaken
        for window in claim.windows:
            _, calls = self._windows.setdefault(window.key, (window.length, deque(maxlen=window.requests)))
            calls.append((max(now, calls[-1][0]) if calls else now, claim.call))
        for quota in claim.quotas:
            spent = self._spent.setdefault(quota.owner, _Spent())
            spent.calls += 1
            spent.cost += claim.cost
        for key in claim.traces():
            self._traces.setdefault(key, deque(maxlen=_TRACED)).append(claim.call)
        self._sweep(len(claim.windows), now)
        if intent is not None:
            try:
                await self._audit.commit(intent)
            except BaseException:
                await self.release(claim)
                raise

    async def release(self, claim: Claim) -> None:
        """Stop counting a call, and give its approval back."""
        self._door.check()
        for window in claim.windows:
            if (known := self._windows.get(window.key)) is not None:
                kept = [one for one in known[1] if one[1] != claim.call]
                self._windows[window.key] = known[0], deque(kept, maxlen=window.requests)
        for quota, key in zip(claim.quotas, claim.traces(), strict=False):
            if self._forget(key, claim.call):
                spent = self._spent[quota.owner]
                spent.calls -= 1
                spent.cost -= claim.cost
        if (approval := claim.approval) is not None and self._forget(f"approval {approval.id}", claim.call):
            await self._approvals.move(replace(approval, status="approved"), "used")

    def drop(self, session: str) -> None:
        """Forget the used amounts of a session and its runs."""
        for owner in [one for one in self._spent if one.partition("/")[0] == session]:
            del self._spent[owner]
            self._traces.pop(f"quota {owner}", None)

    def _refusal(self, claim: Claim, now: int) -> Refused | None:
        for quota in claim.quotas:
            spent = self._spent.get(quota.owner, _Spent())
            if not quota.covers(spent.calls, spent.cost, claim.cost):
                return QuotaSpent(quota, spent.calls, spent.cost)
        longest: WindowFull | None = None
        for window in claim.windows:
            _, calls = self._windows.get(window.key, (0, deque[tuple[int, str]]()))
            if len(calls) >= window.requests:
                ends = calls[0][0] + window.length
                if ends > max(now, calls[-1][0]) and (longest is None or ends - now > longest.wait):
                    longest = WindowFull(window, ends - now)
        return longest

    def _forget(self, key: str, call: str) -> bool:
        calls = self._traces.get(key)
        if calls is None or call not in calls:
            return False
        calls.remove(call)
        return True

    def _sweep(self, new: int, now: int) -> None:
        """Forget, now and then, expired windows and the calls that used approvals."""
        self._new += new + 1
        if self._new <= _SWEEP_EVERY:
            return
        self._new = 0
        for key, (length, calls) in list(self._windows.items()):
            if not calls or calls[-1][0] + 2 * length < now:
                del self._windows[key]
        while len(self._traces) > _TRACED:
            del self._traces[next(iter(self._traces))]
