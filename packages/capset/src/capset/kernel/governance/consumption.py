"""Limits and budgets, and what has been used of each: of a session, or of a principal beside its sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capset.clock import Clock
from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.limits import LimitScope, Per
from capset.definitions.principals import Principal
from capset.kernel.call.session_context import SessionContext
from capset.kernel.governance.limits import CallLimits
from capset.kernel.governance.quotas import Counted, CountedUsage, Quotas, SessionLimits, session_limits
from capset.stores.base import Quota, Store


@dataclass(frozen=True, slots=True)
class Consumption:
    """One amount that is limited: of calls, of their cost, or of what models use.

    ``subject`` is named as errors name it. ``window`` is in seconds, ``None`` for a budget. ``used`` is ``None`` where
    each process counts for itself and this one cannot say.
    """

    subject: str
    resource: str
    per: Per
    window: int | None
    scope: LimitScope
    most: float
    used: float | None


async def session_consumption(context: SessionContext) -> list[Consumption]:
    """Return what was used of the limits of a session, of its tools in play, and of its budget; not those of runs."""
    runtime, terms = context.runtime, context.terms or SessionLimits((), None, None)
    of_tools = [
        one
        for installed in context.snapshot.installed.values()
        for one in CallLimits(installed).counted(context.id, context.principal)
    ]
    limits = list(dict.fromkeys((*terms.limits, *of_tools)))
    found = await _of_limits(runtime.store, runtime.clock, limits, runtime.quotas, runtime.monotonic_ns())
    if terms.session is not None:
        found += await _of_budget(runtime.store, terms.session)
    return found + await _of_usage(runtime.store, runtime.clock, terms.usage)


async def principal_consumption(
    store: Store, clock: Clock, principal: Principal, server: Allowance | None
) -> list[Consumption]:
    """Return what was used of the limits that a principal has with every agent: its own, and those of the server.

    Limits per session are those of a session alone.
    """
    allowances = (("server", server), ("principal", principal.allowance))
    terms = session_limits("", principal, agent="", agent_id=None, allowances=allowances, budgets=())
    if terms is None:
        return []
    limits = [one for one in terms.limits if one.limit.per != "session"]
    usage = [one for one in terms.usage if one.limit.per != "session"]
    return await _of_limits(store, clock, limits) + await _of_usage(store, clock, usage)


async def _of_limits(
    store: Store, clock: Clock, limits: Sequence[Counted], quotas: Quotas | None = None, now: int = 0
) -> list[Consumption]:
    shared = [one for one in limits if one.limit.scope == "shared"]
    counts = await store.admissions.counts([one.window for one in shared], clock.time_ns())
    used: dict[Counted, int] = dict(zip(shared, counts, strict=True))
    if quotas is not None:
        used |= {one: quotas.count(one.key, now) for one in limits if one.limit.scope == "process"}
    return [
        Consumption(
            one.what, "calls", one.limit.per, one.limit.window, one.limit.scope, one.limit.requests, used.get(one)
        )
        for one in limits
    ]


async def _of_budget(store: Store, quota: Quota) -> list[Consumption]:
    ((calls, cost),) = await store.admissions.spent([quota.owner])
    amounts = (("calls", quota.calls, calls), ("cost", quota.cost, cost))
    return [
        Consumption("this session", resource, "session", None, "shared", most, used)
        for resource, most, used in amounts
        if most is not None
    ]


async def _of_usage(store: Store, clock: Clock, limits: Sequence[CountedUsage]) -> list[Consumption]:
    usages = await store.usage.read([counted.window for counted in limits], clock.time_ns())
    return [
        Consumption(
            counted.what,
            f"model_{name}",
            counted.limit.per,
            counted.limit.window,
            "shared",
            most,
            float(getattr(usage.used, name)),
        )
        for counted, usage in zip(limits, usages, strict=True)
        for name, most in counted.limit.amounts().items()
    ]
