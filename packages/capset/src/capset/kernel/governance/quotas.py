"""Limits on all calls of a session, in addition to those of its tools: allowances and budgets (spec 4, G13–G15)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.limits import Budget, Limit, Per, lowest_budget
from capset.definitions.governance.usage import UsageLimit
from capset.definitions.principals import Principal
from capset.fingerprint.canonical import canonical
from capset.stores.base import Quota, UsageWindow, Window

SECOND_NS: Final = 1_000_000_000


class CountedLimit(NamedTuple):
    """A limit and its key. ``label`` names its subject in errors; ``key`` combines the subject and its owner."""

    label: str
    limit: Limit
    key: WindowKey

    @property
    def window(self) -> Window:
        """The window of this limit in the store."""
        return _window(self.key, self.limit.requests, self.limit.window)


class CountedUsage(NamedTuple):
    """A limit on usage, its subject as errors name it, and the window in which it is counted."""

    label: str
    limit: UsageLimit
    window: UsageWindow


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """The limits of a session: on all of its calls, its budget, the budget of each run, and limits on model usage."""

    limits: tuple[CountedLimit, ...]
    session: Quota | None
    run: Budget | None
    usage: tuple[CountedUsage, ...] = ()

    def run_quota(self, session: str, run: str, run_budget: Budget | None = None) -> Quota | None:
        """Return the quota of a run of the session; ``run_budget`` is the run's own budget."""
        budget = lowest_budget((self.run, run_budget))
        return None if budget is None else Quota(f"{session}/{run}", budget.calls, budget.cost)


def session_limits(
    session: str,
    principal: Principal,
    *,
    agent: str,
    agent_id: str | None,
    allowances: Iterable[tuple[str, Allowance | None]],
    budgets: Iterable[Budget | None],
) -> SessionLimits | None:
    """Return the limits of a session, or ``None`` if it has none.

    ``allowances`` pairs the words ``server``, ``principal`` and ``agent`` with their allowances; ``budgets`` are those
    of the session itself. All apply at once: the lowest decides, and none raises another. A stored agent's limits are
    counted by its ``agent_id``, since another organisation may have an agent of the same name.
    """
    granted = [(source, allowance) for source, allowance in allowances if allowance is not None]
    owners: dict[str, tuple[str, ...]] = {
        "principal": _principal_owner(session, principal),
        "agent": (agent_id or agent,),
    }
    limits = [
        CountedLimit(
            f"the agent {agent!r}" if source == "agent" else f"this {source}",
            limit,
            # No capability's name begins with "@", so no tool's limit shares these keys.
            (f"@{source} {limit}", (*owners.get(source, ()), *OWNER_OF[limit.per](session, principal))),
        )
        for source, allowance in granted
        for limit in allowance.limits
    ]
    budget = lowest_budget((*budgets, *(allowance.session for _, allowance in granted)))
    run = lowest_budget(allowance.run for _, allowance in granted)
    usage = tuple(
        _counted_usage(limit, session, principal, agent=(agent, agent_id) if source == "agent" else None)
        for source, allowance in granted
        for limit in allowance.usage
    )
    if not limits and not usage and budget is None and run is None:
        return None
    quota = None if budget is None else Quota(session, budget.calls, budget.cost)
    return SessionLimits(tuple(limits), quota, run, usage)


def _counted_usage(
    limit: UsageLimit, session: str, principal: Principal, *, agent: tuple[str, str | None] | None
) -> CountedUsage:
    """Return a limit on usage with its window; an agent's own limit has a window for that agent alone.

    The key contains no amounts, so a limit that is raised or lowered keeps what was used.
    """
    name, stored = agent or ("", None)
    owner = (stored or name, limit.per, *OWNER_OF[limit.per](session, principal))
    key = sha256(canonical(["usage", limit.window, *owner])).hexdigest()
    window = UsageWindow(
        f"{session}/{key}" if limit.per == "session" else key,  # so that it is deleted with its session
        None if limit.window is None else limit.window * SECOND_NS,
    )
    label = {"org": "this organisation", "all": "this server"}.get(limit.per, f"this {limit.per}")
    return CountedUsage(f"{label} with the agent {name!r}" if agent else label, limit, window)


OwnerOf = Callable[[str, Principal], tuple[str, ...]]
"""Returns the owner of a session's calls, from its id and its principal. Calls of equal owners count together."""


def _principal_owner(session: str, principal: Principal) -> tuple[str, ...]:
    return principal.org or "", principal.kind, principal.id


def _org_owner(session: str, principal: Principal) -> tuple[str, ...]:
    # Without an org each principal is on its own: strangers share nothing.
    return (principal.org,) if principal.org is not None else ("", principal.kind, principal.id)


OWNER_OF: Final[Mapping[Per, OwnerOf]] = {
    "principal": _principal_owner,
    "session": lambda session, principal: (session,),
    "org": _org_owner,
    "all": lambda session, principal: (),
}


@lru_cache(4096)
def _window(key: WindowKey, requests: int, seconds: int) -> Window:
    # A digest, since the names may be longer than an index allows.
    name, owner = key
    return Window(sha256(canonical([name, *owner])).hexdigest(), requests, seconds * SECOND_NS)


_SWEEP_EVERY: Final = 1_000
"""Number of new windows between two removals of empty ones."""


WindowKey = tuple[str, tuple[str, ...]]
"""The subject of a window (the tool's own name and its limit, as text) and its owner."""


class Quotas:
    """The in-process windows of one kernel. Times are in nanoseconds of its monotonic clock."""

    __slots__ = ("_new_windows", "_windows", "sweeps")

    def __init__(self) -> None:
        self._windows: dict[WindowKey, tuple[deque[int], int]] = {}
        """Each window with its length in nanoseconds."""
        self._new_windows = 0
        self.sweeps = 0
        """Number of sweeps so far. Cached windows must be looked up again after a sweep."""

    def window(self, key: WindowKey, limit: Limit) -> deque[int]:
        """Return a window, created if necessary: the times of calls, oldest first; some may have expired."""
        entry = self._windows.get(key)
        if entry is None:
            self._new_windows += 1
            entry = self._windows[key] = deque[int](), limit.window * SECOND_NS
        return entry[0]

    def count(self, key: WindowKey, now: int) -> int:
        """Return how many calls count now, without creating the window."""
        entry = self._windows.get(key)
        if entry is None:
            return 0
        window, length = entry
        drop_expired(window, now - length)
        return len(window)

    def sweep_if_due(self, now: int) -> None:
        """Sweep if enough windows are new; the caller must hold none."""
        if self._new_windows > _SWEEP_EVERY:
            self.sweep(now)

    def sweep(self, now: int) -> None:
        """Remove the windows in which no call counts any more."""
        self._new_windows = 0
        self.sweeps += 1
        for key, (window, length) in list(self._windows.items()):
            if not window or window[-1] <= now - length:
                del self._windows[key]

    def __len__(self) -> int:
        return len(self._windows)


def drop_expired(window: deque[int], past: int) -> None:
    """Drop the times of calls that no longer count: those up to ``past``."""
    while window and window[0] <= past:
        window.popleft()


def seconds_left(window: deque[int], limit: Limit, now: int) -> float | None:
    """Return the seconds until one more call fits, rounded up to the millisecond; ``None`` if one fits now."""
    over = len(window) - limit.requests
    if over < 0:
        return None
    remaining = window[over] + limit.window * SECOND_NS - now
    return -(-remaining // 1_000_000) / 1_000


class SessionWindows(NamedTuple):
    """The in-process windows that calls of one tool in one session count in, cached until the next sweep."""

    sweeps: int
    """``Quotas.sweeps`` when the windows were looked up."""
    windows: tuple[deque[int], ...]
    checks: tuple[tuple[deque[int], int, int], ...]
    """Each window with its length in nanoseconds and its maximum number of calls."""
    limits: tuple[CountedLimit, ...]


class WindowReservation(NamedTuple):
    """One call's reservation, made at ``stamp``, in the in-process windows."""

    windows: tuple[deque[int], ...]
    stamp: int

    def release(self) -> None:
        """Stop counting the call, since its handler never started: only calls that reach their handler count."""
        for window in self.windows:
            if self.stamp in window:
                window.remove(self.stamp)
