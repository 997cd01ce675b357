"""Quota: limits and budgets are checked, and reserved at once; what never starts gives back (spec 4, G3, G13–G15)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

from capset.composition.installing import Installed
from capset.definitions.limits import Limit, Per
from capset.errors import BudgetExceeded, LimitExceeded
from capset.kernel.invocation import Invocation, Step
from capset.kernel.place import Place
from capset.kernel.quotas import Reserved, Spending, seconds_left


def quota(installed: Installed) -> Step:
    """Refuse a call beyond a limit of its tool, or beyond a budget of its session or its run."""
    tool, name = installed.tool, installed.name
    # By the tool's own name, so that a second name for it, or a second agent, is no second allowance.
    # It is text, whose hash is worked out once, and no name has a space.
    own = f"{installed.source.capability or ''} {tool.name}"
    counted = tuple((limit, f"{own} {limit}", _WHOSE[limit.per]) for limit in tool.limits)
    cost = tool.cost or 0.0

    def step(call: Invocation) -> None:
        place = call.place
        if not counted and place.spending is None and call.spending is None:
            return
        spendings = () if place.spending is None and call.spending is None else _budgets(call, cost)
        world = place.world
        now = world.monotonic_ns()
        windows: list[deque[int]] = []
        longest, reached = -1.0, None
        for limit, key, whose in counted:
            window = world.quotas.window((key, whose(place)), limit, now)
            windows.append(window)
            left = seconds_left(window, limit, now) if len(window) >= limit.requests else None
            if left is not None and left > longest:
                longest, reached = left, limit
        if reached is not None:
            call.decision, call.reason = "deny", f"the limit of {reached}"
            raise _exceeded(name, reached, longest)
        for window in windows:
            window.append(now)
        for spending in spendings:
            spending.add(cost)
        call.reserved = Reserved(tuple(windows), now, spendings, cost)

    return step


def _budgets(call: Invocation, cost: float) -> tuple[Spending, ...]:
    found: list[Spending] = []
    for what, spending in (("the session", call.place.spending), ("the run", call.spending)):
        if spending is not None:
            try:
                spending.check(what, cost)
            except BudgetExceeded as error:
                call.decision, call.reason = "deny", error.message
                raise
            found.append(spending)
    return tuple(found)


def _exceeded(name: str, limit: Limit, left: float) -> LimitExceeded:
    told = f"Rate limit exceeded: {name!r} takes {limit}; try again in {left:g} s."
    return LimitExceeded(told, retry_after=left)


def _principal(place: Place) -> Hashable:
    who = place.principal
    return who.org, who.kind, who.id


def _org(place: Place) -> Hashable:
    # Where there is no org, each principal is its own: strangers share nothing.
    who = place.principal
    return who.org if who.org is not None else (who.kind, who.id)


_WHOSE: dict[Per, Callable[[Place], Hashable]] = {
    "principal": _principal,
    "session": lambda place: place.id,
    "org": _org,
    "all": lambda place: None,
}
