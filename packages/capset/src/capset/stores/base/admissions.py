"""The protocols of approvals and of admission, which is atomic for each call (spec 4, G3, G16–G18)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from capset.definitions.governance.approvals import ApprovalRow, ApprovalStatus, CallKey
from capset.stores.base.audit import Entry
from capset.stores.base.deliveries import DeliveryRow
from capset.stores.base.pages import Page, Query

STANDING: Final[tuple[ApprovalStatus, ...]] = ("pending", "approved", "rejected")
"""The statuses of a standing request, which applies to equal calls until it expires."""

APPROVAL_FILTERS: Final = ("status", "session", "tool_hash", "digest", "tool", "agent", "principal")
"""The fields of an ``ApprovalQuery`` that filter requests."""


@dataclass(frozen=True, slots=True)
class ApprovalQuery(Query):
    """A query for requests of one org that match every field that is not ``None``, newest first.

    With ``oldest_first``, the order is reversed, and ``before`` is the id after which the page begins.
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
    """The number of an org's pending requests, the time of the oldest, and the numbers since given times."""

    pending: int
    oldest_at: str | None
    since: tuple[int, ...]


class ArgumentsFull(Exception):
    """Raised for a request whose arguments exceed the limit for all pending ones together; nothing was written."""


class ApprovalStore(Protocol):
    """The approval requests. Each belongs to one org."""

    async def open(
        self,
        row: ApprovalRow,
        *,
        max_pending: int,
        max_bytes: int | None = None,
        by_code: bool = False,
        deliveries: Sequence[DeliveryRow] = (),
    ) -> ApprovalRow | None:
        """Store a new request and return it, or return the standing one for an equal call at its ``created_at``.

        With ``by_code``, equal calls must also have the row's code hash, or none if it has none. If equal requests are
        made concurrently, in any processes, only one is stored; its ``deliveries`` are queued with it. Returns ``None``
        if ``max_pending`` requests of its principal, with the same ``on_behalf_of``, are pending. Raises
        ``ArgumentsFull`` if the arguments of all pending requests of its org would exceed ``max_bytes`` in UTF-8, and
        ``StoreError`` if its id is taken.
        """
        ...

    async def standing(self, call: CallKey, now: str) -> ApprovalRow | None:
        """Return the newest standing request for an equal call: pending, approved or rejected, and not expired.

        The code hash is compared unless that of the call is ``None``.
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
        previous: ApprovalRow | None = None,
        act: Entry | None = None,
        deliveries: Sequence[DeliveryRow] = (),
    ) -> bool:
        """Replace the request with the id and org of ``row``, if it still has the expected status.

        With ``previous``, it must also still have the same approvals and next escalation. Returns whether it was
        replaced, durably: of several concurrent callers, only one gets ``True``. If the request was pending and no
        longer is, the suspended turn of its session becomes due (``EventStore.due``). ``deliveries`` are queued in the
        same transaction.
        """
        ...

    async def escalating(self, now: str, limit: int = 100) -> list[ApprovalRow]:
        """Return pending requests of every org whose next escalation is at ``now`` or before, oldest first."""
        ...

    async def summary(self, org: str | None, times: tuple[str, ...]) -> PendingSummary:
        """Count the pending requests of an org: all of them, and those created at or after each of ``times``."""
        ...

    async def overdue(self, now: str, limit: int = 100) -> list[ApprovalRow]:
        """Return requests of every org, pending or approved, that expire at ``now`` or before, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Window:
    """A moving window: at most ``requests`` calls within any ``length`` nanoseconds, counted by ``key``."""

    key: str
    requests: int
    length: int


@dataclass(frozen=True, slots=True)
class Quota:
    """The budget of an ``owner``: a maximum number of ``calls`` and a maximum ``cost``; ``None`` means no limit.

    The owner is the id of a session or, for a run, the ids of the session and the run with a slash between them.
    """

    owner: str
    calls: int | None
    cost: float | None

    def covers(self, calls: int, cost: float, more: float) -> bool:
        """Whether one more call of cost ``more`` fits, after ``calls`` calls of total ``cost``."""
        has_cost = self.cost is None or cost + more <= self.cost + 1e-9  # with floats, three times 0.1 is more than 0.3
        return has_cost and (self.calls is None or calls < self.calls)


@dataclass(frozen=True, slots=True)
class TurnHold:
    """A session's turn and the process that holds it, as in ``TurnRow``."""

    session: str
    turn: str
    holder: str


@dataclass(frozen=True, slots=True)
class Claim:
    """The windows and budgets in which one call counts, and the single-use approval that it uses up.

    ``call`` is the id of its record, ``clock`` the kernel's clock in nanoseconds of Unix time, ``cost`` the cost of its
    tool. The clock is read when the call is counted, since that may have to wait. ``hold`` is the turn that must still
    be held when the call is made, so that no other process has yet determined which calls the turn has made.
    """

    call: str
    clock: Callable[[], int]
    windows: tuple[Window, ...] = ()
    quotas: tuple[Quota, ...] = ()
    cost: float = 0.0
    approval: ApprovalRow | None = None
    hold: TurnHold | None = None

    def marker_keys(self) -> Iterator[str]:
        """Yield the keys under which a store marks this call as counted, except in windows."""
        yield from (f"quota {quota.owner}" for quota in self.quotas)
        if self.approval is not None:
            yield f"approval {self.approval.id}"


class AdmissionRefused(Exception):
    """Raised for a call that cannot be admitted; nothing was written."""


class TurnTaken(AdmissionRefused):
    """Raised for a call of a turn that another process holds now, or that has ended."""


class WindowFull(AdmissionRefused):
    """Raised for a full window; ``wait`` is the time in nanoseconds until one more call fits."""

    def __init__(self, window: Window, wait: int) -> None:
        super().__init__(window, wait)
        self.window = window
        self.wait = wait


class QuotaExhausted(AdmissionRefused):
    """Raised if too little of a budget is left for a call; ``calls`` and ``cost`` are the amounts used."""

    def __init__(self, quota: Quota, calls: int, cost: float) -> None:
        super().__init__(quota, calls, cost)
        self.quota = quota
        self.calls = calls
        self.cost = cost


class ApprovalTaken(AdmissionRefused):
    """Raised for an approval that another call has used up."""


class AdmissionStore(Protocol):
    """Exact admission by limits, budgets and approvals: never one call too many, even with concurrent calls.

    A window's time never goes back: a claim from before its newest call is counted at the time of that call. So setting
    a clock back frees no capacity.
    """

    async def check(self, claim: Claim) -> AdmissionRefused | None:
        """Return why a call would not be admitted now, ignoring its approval, or ``None``; write nothing."""
        ...

    async def counts(self, windows: Sequence[Window], now: int) -> list[int]:
        """Return the number of calls in each window at ``now``, in nanoseconds of Unix time."""
        ...

    async def spent(self, owners: Sequence[str]) -> list[tuple[int, float]]:
        """Return the number and the total cost of the calls counted in the budgets of these owners."""
        ...

    async def admit(self, claim: Claim, intent: Entry | None) -> None:
        """Count a call, use up its approval, and write its intent, durably and atomically.

        Raises the first that applies of ``TurnTaken``, ``QuotaExhausted``, ``WindowFull`` (for the window with the
        longest wait) and ``ApprovalTaken``, or ``StoreError``; then nothing was written.
        """
        ...

    async def release(self, claim: Claim) -> None:
        """Undo what ``admit`` did: stop counting a call, and restore its approval. Its intent stays.

        For a call whose handler was never started. May be called twice, and for a claim that was never admitted.
        """
        ...
