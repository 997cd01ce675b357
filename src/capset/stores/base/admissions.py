"""The protocol of admissions: a call's reservations, its approval and its intent are written together (spec 4, G3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from capset.definitions.approvals import ApprovalRow
from capset.stores.base.audit import Entry

_ROUNDING: Final = 1e-9
"""Tolerance for sums of costs: 0.1 three times is more than 0.3."""


@dataclass(frozen=True, slots=True)
class Window:
    """A moving window: at most ``requests`` calls within any ``length`` nanoseconds, counted by ``key``."""

    key: str
    requests: int
    length: int


@dataclass(frozen=True, slots=True)
class Quota:
    """A budget of ``calls`` and of ``cost``, either of them possibly unlimited, of an ``owner``.

    The owner is a session's id, or for a run the session's id, a slash and the run's.
    """

    owner: str
    calls: int | None
    cost: float | None

    def covers(self, calls: int, cost: float, more: float) -> bool:
        """Whether one more call of the cost ``more`` fits, after this many calls at this cost."""
        has_cost = self.cost is None or cost + more <= self.cost + _ROUNDING
        return has_cost and (self.calls is None or calls < self.calls)


@dataclass(frozen=True, slots=True)
class Claim:
    """The windows and budgets that one call counts in, and the one-call approval that it uses up.

    ``call`` is the id of its record, ``clock`` the kernel's in nanoseconds of Unix time, ``cost`` that of its tool. The
    clock is read when the call is counted, since it may have to wait for its turn.
    """

    call: str
    clock: Callable[[], int]
    windows: tuple[Window, ...] = ()
    quotas: tuple[Quota, ...] = ()
    cost: float = 0.0
    approval: ApprovalRow | None = None

    def traces(self) -> Iterator[str]:
        """Yield the keys under which a store notes that this call counts, apart from its windows."""
        yield from (f"quota {quota.owner}" for quota in self.quotas)
        if self.approval is not None:
            yield f"approval {self.approval.id}"


class Refused(Exception):
    """Raised for a call that cannot be admitted; nothing was written of it."""


class WindowFull(Refused):
    """Raised for a full window; ``wait`` is the nanoseconds after which one more call fits."""

    def __init__(self, window: Window, wait: int) -> None:
        super().__init__(window, wait)
        self.window = window
        self.wait = wait


class QuotaSpent(Refused):
    """Raised for a budget without enough left for a call; ``calls`` and ``cost`` are the amounts used."""

    def __init__(self, quota: Quota, calls: int, cost: float) -> None:
        super().__init__(quota, calls, cost)
        self.quota = quota
        self.calls = calls
        self.cost = cost


class ApprovalTaken(Refused):
    """Raised for an approval that another call has used up."""


class AdmissionStore(Protocol):
    """Exact admission by limits, budgets and approvals: never one call too many, however many ask at once.

    A window's time never goes back: a claim from before its newest call counts at the time of that call. So setting a
    clock back frees no capacity.
    """

    async def look(self, claim: Claim) -> Refused | None:
        """Return the reason why a call would not be admitted now by its windows and budgets, and write nothing."""
        ...

    async def admit(self, claim: Claim, intent: Entry | None) -> None:
        """Count a call, use up its approval, and write its intent, durably and all at once.

        Raises ``QuotaSpent``, ``WindowFull`` for the window with the longest wait, ``ApprovalTaken``, in this order,
        and ``StoreError``; then nothing of it was written.
        """
        ...

    async def release(self, claim: Claim) -> None:
        """Stop counting a call, and give its approval back, as far as ``admit`` did that; its intent stays.

        For a call whose handler was never started. It may be called twice, and for a claim that was never admitted.
        """
        ...
