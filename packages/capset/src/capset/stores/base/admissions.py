"""The protocols of approvals and admissions: a call is counted, approved and intended at once (spec 4, G3, G16–G18)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from capset.definitions.governance.approvals import ApprovalRow, ApprovalStatus, EqualCall
from capset.stores.base.audit import Entry
from capset.stores.base.deliveries import DeliveryRow
from capset.stores.base.pages import Page, Query

STANDING: Final[tuple[ApprovalStatus, ...]] = ("pending", "approved", "rejected")
"""The statuses in which a request stands, until it expires: an equal call meets it."""

_ROUNDING: Final = 1e-9
"""Tolerance for sums of costs: 0.1 three times is more than 0.3."""


APPROVAL_FILTERS: Final = ("status", "session", "tool_hash", "digest", "tool", "agent", "principal")
"""The fields of an ``ApprovalQuery`` that a request has to equal."""


@dataclass(frozen=True, slots=True)
class ApprovalQuery(Query):
    """A query for requests of one org that equal every field that is not ``None``, newest first.

    With ``oldest_first`` the order is the other way round, and ``before`` is the id that the page begins after.
    """

    org: str | None
    status: ApprovalStatus | None = None
    session: str | None = None
    tool_hash: str | None = None
    digest: str | None = None
    tool: str | None = None
    agent: str | None = None
    principal: str | None = None
    oldest_first: bool = False


@dataclass(frozen=True, slots=True)
class PendingSummary:
    """The number of pending requests of an org, the time of the oldest, and the numbers of those since some times."""

    pending: int
    oldest_at: str | None
    since: tuple[int, ...]


class ArgumentsFull(Exception):
    """Raised for a request whose arguments have no room beside those of the pending ones; nothing was written."""


class ApprovalStore(Protocol):
    """The requests, each of one org."""

    async def open(
        self,
        row: ApprovalRow,
        *,
        most: int,
        max_bytes: int | None = None,
        by_code: bool = False,
        deliveries: Sequence[DeliveryRow] = (),
    ) -> ApprovalRow | None:
        """Store a new request and return it, or return the standing one for an equal call at its ``created_at``.

        With ``by_code`` equal calls also share the row's hash of code, or have none if it has none. Of equal requests
        that are made at once, in any processes, one is stored, and its ``deliveries`` are queued with it. ``None`` if
        ``most`` requests of its principal, with the same ``on_behalf_of``, are pending. Raises ``ArgumentsFull`` if the
        arguments of all pending requests of its org would have more than ``max_bytes`` as UTF-8, and ``StoreError`` if
        its id is taken.
        """
        ...

    async def standing(self, call: EqualCall, now: str) -> ApprovalRow | None:
        """Return the newest standing request for an equal call: pending, approved or rejected, and not expired.

        Code is compared if the call names it.
        """
        ...

    async def get(self, org: str | None, id: str) -> ApprovalRow | None:
        """Return a request of an org, or ``None``."""
        ...

    async def list(self, query: ApprovalQuery) -> Page[ApprovalRow]:
        """Return requests, newest first."""
        ...

    async def move(
        self,
        row: ApprovalRow,
        expected: ApprovalStatus,
        *,
        seen: ApprovalRow | None = None,
        act: Entry | None = None,
        deliveries: Sequence[DeliveryRow] = (),
    ) -> bool:
        """Replace the request of ``row``'s id and org, if it still has the expected status.

        With ``seen``, only if it still has its approvals and its next escalation, too. Returns whether it had, durably:
        of several callers that move one request at once, one gets ``True``. If it was pending and is not any more, the
        suspended turn of its session is due from then on (``EventStore.due``). ``deliveries`` are queued with the
        change, or not at all.
        """
        ...

    async def escalating(self, now: str, limit: int = 100) -> list[ApprovalRow]:
        """Return pending requests of every org whose next escalation is at ``now`` or before, the oldest first."""
        ...

    async def summary(self, org: str | None, times: tuple[str, ...]) -> PendingSummary:
        """Count the pending requests of an org: all of them, and those that were made at each time or later."""
        ...

    async def overdue(self, now: str, limit: int = 100) -> list[ApprovalRow]:
        """Return requests of every org, pending or approved, that expire at ``now`` or before, the oldest first."""
        ...


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
class TurnHold:
    """A session's turn, and the process that holds it, as ``TurnRow`` has them."""

    session: str
    turn: str
    holder: str


@dataclass(frozen=True, slots=True)
class Claim:
    """The windows and budgets that one call counts in, and the one-call approval that it uses up.

    ``call`` is the id of its record, ``clock`` the kernel's in nanoseconds of Unix time, ``cost`` that of its tool. The
    clock is read when the call is counted, since it may have to wait for its turn. ``hold`` is the turn that must still
    be held as the call is made: then no other process has looked yet which calls of the turn were made before.
    """

    call: str
    clock: Callable[[], int]
    windows: tuple[Window, ...] = ()
    quotas: tuple[Quota, ...] = ()
    cost: float = 0.0
    approval: ApprovalRow | None = None
    hold: TurnHold | None = None

    def traces(self) -> Iterator[str]:
        """Yield the keys under which a store notes that this call counts, apart from its windows."""
        yield from (f"quota {quota.owner}" for quota in self.quotas)
        if self.approval is not None:
            yield f"approval {self.approval.id}"


class Refused(Exception):
    """Raised for a call that cannot be admitted; nothing was written of it."""


class TurnTaken(Refused):
    """Raised for a call of a turn that another process holds now, or that has ended."""


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
        """Return the reason why a call would not be admitted now, apart from its approval; write nothing."""
        ...

    async def counts(self, windows: Sequence[Window], now: int) -> list[int]:
        """Return how many calls count in each window at a time, in nanoseconds of Unix time."""
        ...

    async def spent(self, owners: Sequence[str]) -> list[tuple[int, float]]:
        """Return how many calls were made of the budgets of these owners, and at what cost."""
        ...

    async def admit(self, claim: Claim, intent: Entry | None) -> None:
        """Count a call, use up its approval, and write its intent, durably and all at once.

        Raises ``TurnTaken``, ``QuotaSpent``, ``WindowFull`` for the window with the longest wait, ``ApprovalTaken``, in
        this order, and ``StoreError``; then nothing of it was written.
        """
        ...

    async def release(self, claim: Claim) -> None:
        """Stop counting a call, and give its approval back, as far as ``admit`` did that; its intent stays.

        For a call whose handler was never started. It may be called twice, and for a claim that was never admitted.
        """
        ...
