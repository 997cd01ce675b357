"""Approval requests and admissions in memory. No task switch happens between checking and counting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from capset.definitions.governance.approvals import ApprovalRow, ApprovalStatus, CallKey
from capset.stores.base import STANDING, ApprovalQuery, DeliveryRow, Page, PendingSummary
from capset.stores.base.admissions import (
    APPROVAL_FILTERS,
    AdmissionRefused,
    ApprovalTaken,
    ArgumentsFull,
    Claim,
    QuotaExhausted,
    TurnHold,
    TurnTaken,
    Window,
    WindowFull,
)
from capset.stores.base.audit import Entry
from capset.stores.memory.audit import MemoryAudit
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import filters_of, page_by_id
from capset.stores.rows import id_taken_error

_SWEEP_EVERY: Final = 1_000
"""Number of new windows between two removals of expired ones."""
_MAX_TRACES: Final = 1_000
"""Number of calls traced per budget: enough, since a release comes right after its call."""


class MemoryApprovals:
    """The requests, by id. ``rows`` is shared with the runs, which read it.

    ``decided`` is called with the session and the time when a request ceases to be pending, ``queue`` with deliveries.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        decided: Callable[[str, str], None],
        queue: Callable[[Iterable[DeliveryRow]], None],
        rows: dict[str, ApprovalRow],
    ) -> None:
        self._lifecycle = lifecycle
        self._decided = decided
        self._queue = queue
        self._rows = rows

    async def open(
        self,
        row: ApprovalRow,
        *,
        max_pending: int,
        max_bytes: int | None = None,
        by_code: bool = False,
        deliveries: Sequence[DeliveryRow] = (),
    ) -> ApprovalRow | None:
        equal = row.call_key_with_code if by_code else row.call_key
        if (existing := await self.standing(equal, row.created_at)) is not None:
            return existing
        if row.id in self._rows:
            raise id_taken_error("a request", row.id)
        requester = (row.org, row.principal, row.on_behalf_of)
        pending = sum(
            1
            for other in self._rows.values()
            if other.status == "pending"
            and (other.org, other.principal, other.on_behalf_of) == requester
            and other.expires_at > row.created_at
        )
        if pending >= max_pending:
            return None
        if max_bytes is not None and max_bytes < sum(
            other.argument_bytes
            for other in (row, *self._rows.values())
            if other is row
            or (other.status == "pending" and other.org == row.org and other.expires_at > row.created_at)
        ):
            raise ArgumentsFull
        self._rows[row.id] = row
        self._queue(deliveries)
        return row

    async def standing(self, call: CallKey, now: str) -> ApprovalRow | None:
        self._lifecycle.check()
        matching = [
            row
            for row in self._rows.values()
            if call in (row.call_key, row.call_key_with_code) and row.status in STANDING and row.expires_at > now
        ]
        return max(matching, key=lambda row: row.id, default=None)

    async def get(self, org: str | None, id: str) -> ApprovalRow | None:
        self._lifecycle.check()
        row = self._rows.get(id)
        return row if row is not None and row.org == org else None

    async def list(self, query: ApprovalQuery) -> Page[ApprovalRow]:
        self._lifecycle.check()
        filters = {"org": query.org, **filters_of(query, APPROVAL_FILTERS)}
        return page_by_id(self._rows.values(), query, filters, oldest_first=query.oldest_first)

    async def move(
        self,
        row: ApprovalRow,
        expected: ApprovalStatus,
        *,
        previous: ApprovalRow | None = None,
        act: Entry | None = None,
        deliveries: Sequence[DeliveryRow] = (),
    ) -> bool:
        self._lifecycle.check()
        current = self._rows.get(row.id)
        if current is None or current.org != row.org or current.status != expected:
            return False
        if previous is not None and (current.approvals, current.escalates_at) != (
            previous.approvals,
            previous.escalates_at,
        ):
            return False
        self._lifecycle.record(act)
        self._rows[row.id] = row
        self._queue(deliveries)
        if expected == "pending" != row.status:
            self._decided(row.session, row.decided_at or row.created_at)
        return True

    async def escalating(self, now: str, limit: int = 100) -> list[ApprovalRow]:
        self._lifecycle.check()
        due = [(row.escalates_at, row) for row in self._rows.values() if row.status == "pending" and row.escalates_at]
        due_rows = [(at, row.id, row) for at, row in due if at <= now]
        return [row for _, _, row in sorted(due_rows, key=lambda entry: entry[:2])[:limit]]

    async def summary(self, org: str | None, times: tuple[str, ...]) -> PendingSummary:
        self._lifecycle.check()
        created = [row.created_at for row in self._rows.values() if row.status == "pending" and row.org == org]
        since = tuple(sum(1 for created_at in created if created_at >= time) for time in times)
        return PendingSummary(len(created), min(created, default=None), since)

    def drop(self, session: str) -> None:
        """Forget the requests of a deleted session."""
        for key in [key for key, row in self._rows.items() if row.session == session]:
            del self._rows[key]

    async def overdue(self, now: str, limit: int = 100) -> list[ApprovalRow]:
        self._lifecycle.check()
        matching = [
            row for row in self._rows.values() if row.status in ("pending", "approved") and row.expires_at <= now
        ]
        return sorted(matching, key=lambda row: (row.expires_at, row.id))[:limit]


@dataclass(slots=True)
class _Spent:
    calls: int = 0
    cost: float = 0.0


class MemoryAdmissions:
    """The calls in each window, newest last, and the amounts used of each budget."""

    def __init__(
        self, lifecycle: Lifecycle, audit: MemoryAudit, approvals: MemoryApprovals, is_held: Callable[[TurnHold], bool]
    ) -> None:
        self._lifecycle = lifecycle
        self._is_held = is_held
        self._audit = audit
        self._approvals = approvals
        self._windows: dict[str, tuple[int, deque[tuple[int, str]]]] = {}
        """The length of each window in nanoseconds, and the time and id of each of its calls."""
        self._spent: dict[str, _Spent] = {}
        self._traces: dict[str, deque[str]] = {}
        """The calls that used a budget or an approval, by key."""
        self._new = 0

    async def check(self, claim: Claim) -> AdmissionRefused | None:
        self._lifecycle.check()
        return self._refusal(claim, claim.clock())

    async def counts(self, windows: Sequence[Window], now: int) -> list[int]:
        self._lifecycle.check()
        numbers: list[int] = []
        for window in windows:
            _, calls = self._windows.get(window.key, (0, deque[tuple[int, str]]()))
            past = max(now, calls[-1][0]) - window.length if calls else 0
            numbers.append(sum(at > past for at, _ in calls))
        return numbers

    async def spent(self, owners: Sequence[str]) -> list[tuple[int, float]]:
        self._lifecycle.check()
        return [(amount.calls, amount.cost) for amount in (self._spent.get(owner, _Spent()) for owner in owners)]

    async def admit(self, claim: Claim, intent: Entry | None) -> None:
        self._lifecycle.check()
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
        for key in claim.marker_keys():
            self._traces.setdefault(key, deque(maxlen=_MAX_TRACES)).append(claim.call)
        self._sweep(len(claim.windows), now)
        if intent is not None:
            try:
                await self._audit.commit(intent)
            except BaseException:
                await self.release(claim)
                raise

    async def release(self, claim: Claim) -> None:
        self._lifecycle.check()
        for window in claim.windows:
            if (stored := self._windows.get(window.key)) is not None:
                remaining = [entry for entry in stored[1] if entry[1] != claim.call]
                self._windows[window.key] = stored[0], deque(remaining, maxlen=window.requests)
        for quota, key in zip(claim.quotas, claim.marker_keys(), strict=False):
            if self._forget(key, claim.call):
                spent = self._spent[quota.owner]
                spent.calls -= 1
                spent.cost -= claim.cost
        if (approval := claim.approval) is not None and self._forget(f"approval {approval.id}", claim.call):
            await self._approvals.move(replace(approval, status="approved"), "used")

    def drop(self, session: str) -> None:
        """Forget the budgets of a deleted session and its runs."""
        for owner in [candidate for candidate in self._spent if candidate.partition("/")[0] == session]:
            del self._spent[owner]
            self._traces.pop(f"quota {owner}", None)

    def _refusal(self, claim: Claim, now: int) -> AdmissionRefused | None:
        if claim.hold is not None and not self._is_held(claim.hold):
            return TurnTaken()
        for quota in claim.quotas:
            spent = self._spent.get(quota.owner, _Spent())
            if not quota.covers(spent.calls, spent.cost, claim.cost):
                return QuotaExhausted(quota, spent.calls, spent.cost)
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
        """Remove expired windows and excess traces, once in a while."""
        self._new += new + 1
        if self._new <= _SWEEP_EVERY:
            return
        self._new = 0
        for key, (length, calls) in list(self._windows.items()):
            if not calls or calls[-1][0] + 2 * length < now:
                del self._windows[key]
        while len(self._traces) > _MAX_TRACES:
            del self._traces[next(iter(self._traces))]
