"""The limits and budgets of calls, and the errors when they are exceeded (spec 4, G13–G15)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TypeAlias

from capset.clock import duration_text
from capset.composition.installation import InstalledTool
from capset.definitions.governance.approvals import ApprovalRow
from capset.definitions.governance.limits import Limit, LimitScope
from capset.definitions.principals import Principal
from capset.errors import BudgetExceeded, LimitExceeded, counted
from capset.kernel.call.invocation import Invocation
from capset.kernel.governance.quotas import (
    OWNER_OF,
    SECOND_NS,
    CountedLimit,
    OwnerOf,
    SessionWindows,
    WindowReservation,
    drop_expired,
    seconds_left,
)
from capset.kernel.named_tuples import new_tuple
from capset.stores.base import Claim, QuotaExhausted, TurnHold, WindowFull

_Entries: TypeAlias = tuple[tuple[str, Limit, str, OwnerOf], ...]
"""Limits, each with the label of its subject, its key without the owner, and the function for its owner."""


class CallLimits:
    """The limits of one tool, of the capabilities that bring it, and of the session of its calls."""

    __slots__ = ("_cost", "_local", "_shared", "is_limited", "is_shared")

    def __init__(self, installed: InstalledTool) -> None:
        # Keyed by the tool's own name, so that a second name for it, or a second agent, gives no second allowance.
        # A string caches its hash, and no name contains a space or is "*".
        tool_key = f"{installed.source.capability or ''} {installed.tool.name}"
        declared = [(repr(installed.name), tool_key, limit) for limit in installed.tool.limits]
        declared += [
            (f"the capability {level.owner!r}", f"{level.owner} *", limit)
            for level in installed.levels
            for limit in level.limits
        ]
        keyed = [(label, limit, f"{key} {limit}", OWNER_OF[limit.per]) for label, key, limit in declared]
        self._local = tuple(entry for entry in keyed if entry[1].scope == "process")
        self._shared = tuple(entry for entry in keyed if entry[1].scope == "shared")
        self._cost = installed.tool.cost or 0.0
        self.is_limited = bool(keyed)
        self.is_shared = bool(self._shared)

    def counted_limits(self, session: str, principal: Principal) -> list[CountedLimit]:
        """Return these limits as counted for a session and a principal, without those of the session itself."""
        return _counted((*self._shared, *self._local), session, principal)

    async def check(self, call: Invocation) -> None:
        """Raise ``LimitExceeded`` if a limit or a budget would refuse the call now; nothing is counted."""
        self.reserve(call).release()
        claim, limits = self.claim(call, None)
        if claim is not None and (refused := await call.context.runtime.store.admissions.check(claim)) is not None:
            assert isinstance(refused, QuotaExhausted | WindowFull)  # noqa: S101  # no approval is involved
            raise refusal_error(call, refused, limits)

    def reserve(self, call: Invocation) -> WindowReservation:
        """Count a call as ``count`` does, and return the reservation, which can be given back."""
        stamp = self.count(call)
        return new_tuple(WindowReservation, (call.context.windows[self].windows, stamp))

    def count(self, call: Invocation) -> int:
        """Count a call in the in-process windows, and return the time. Raises ``LimitExceeded``.

        It does not yield to other tasks.
        """
        context = call.context
        runtime = context.runtime
        now = runtime.monotonic_ns()
        session_windows = context.windows.get(self)
        if session_windows is None or session_windows.sweeps != runtime.quotas.sweeps:
            session_windows = self._look_up_windows(call, now)
        for window, length, requests in session_windows.checks:
            past = now - length  # as ``drop_expired`` does: most calls find nothing to drop
            while window and window[0] <= past:
                window.popleft()
            if len(window) >= requests:
                raise _window_error(call, session_windows, now)
        for window in session_windows.windows:
            window.append(now)
        return now

    def _look_up_windows(self, call: Invocation, now: int) -> SessionWindows:
        """Look up the in-process windows of a session's calls, and cache them in its context."""
        context = call.context
        quotas, limits = context.runtime.quotas, self._limits_of(call, self._local, "process")
        quotas.sweep_if_due(now)
        windows = [quotas.window(counted_limit.key, counted_limit.limit) for counted_limit in limits]
        checks = [
            (window, counted_limit.limit.window * SECOND_NS, counted_limit.limit.requests)
            for window, counted_limit in zip(windows, limits, strict=True)
        ]
        session_windows = context.windows[self] = SessionWindows(
            quotas.sweeps, tuple(windows), tuple(checks), tuple(limits)
        )
        return session_windows

    def claim(
        self, call: Invocation, approval: ApprovalRow | None, hold: TurnHold | None = None
    ) -> tuple[Claim | None, Sequence[CountedLimit]]:
        """Return a call's claim on the store, ``None`` if there is nothing to claim, and the limits of its windows."""
        limits = self._limits_of(call, self._shared, "shared")
        session_limits = call.context.limits
        session_quota = session_limits and session_limits.session
        quotas = tuple(quota for quota in (session_quota, call.options.quota) if quota is not None)
        if not limits and not quotas and approval is None and hold is None:
            return None, ()
        windows = tuple(counted_limit.window for counted_limit in limits)
        return Claim(call.id, call.context.runtime.clock.time_ns, windows, quotas, self._cost, approval, hold), limits

    def _limits_of(self, call: Invocation, entries: _Entries, scope: LimitScope) -> list[CountedLimit]:
        context = call.context
        limits = _counted(entries, context.id, context.principal)
        if context.limits is not None:
            limits += [counted_limit for counted_limit in context.limits.limits if counted_limit.limit.scope == scope]
        return limits


def _counted(entries: _Entries, session: str, principal: Principal) -> list[CountedLimit]:
    return [CountedLimit(label, limit, (key, owner_of(session, principal))) for label, limit, key, owner_of in entries]


def refusal_error(
    call: Invocation, refused: QuotaExhausted | WindowFull, limits: Sequence[CountedLimit]
) -> LimitExceeded:
    """Return the error for a call that the store refuses, which also becomes the reason in the call's record."""
    if isinstance(refused, WindowFull):
        counted_limit = next(candidate for candidate in limits if candidate.window == refused.window)
        return _exceeded_error(call, counted_limit, -(-refused.wait // 1_000_000) / 1_000)
    error = BudgetExceeded(_budget_text(call, refused))
    call.deny(error.message)
    return error


def _window_error(call: Invocation, session_windows: SessionWindows, now: int) -> LimitExceeded:
    """Return the error for a call that a window has no room for; of several, the one with the longest wait."""
    waits: list[tuple[float, CountedLimit]] = []
    for window, counted_limit in zip(session_windows.windows, session_windows.limits, strict=True):
        drop_expired(window, now - counted_limit.limit.window * SECOND_NS)
        if (remaining := seconds_left(window, counted_limit.limit, now)) is not None:
            waits.append((remaining, counted_limit))
    remaining, reached = max(waits, key=itemgetter(0))  # of equal waits, the first
    return _exceeded_error(call, reached, remaining)


def _exceeded_error(call: Invocation, counted_limit: CountedLimit, remaining: float) -> LimitExceeded:
    call.deny(f"the limit of {counted_limit.limit}")
    wait = duration_text(remaining)
    label, limit = counted_limit.label, counted_limit.limit
    each = " for each principal" if limit.per == "principal" and label != "this principal" else ""
    message = f"Rate limit exceeded: {label} is limited to {limit}{each}; try again in {wait}."
    return LimitExceeded(message, retry_after=remaining)


def _budget_text(call: Invocation, refused: QuotaExhausted) -> str:
    quota = refused.quota
    subject = "the run" if quota is call.options.quota else "the session"
    if quota.calls is not None and refused.calls >= quota.calls:
        return f"Budget exceeded: {subject} may make {counted(quota.calls, 'call')}, and has already made that many."
    cost = (call.compiled.tool and call.compiled.tool.cost) or 0.0
    return f"Budget exceeded: this costs {cost:g}, and {subject} has {(quota.cost or 0.0) - refused.cost:g} left."
