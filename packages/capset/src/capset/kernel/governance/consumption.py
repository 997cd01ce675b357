"""Limits and budgets, and what has been used of each: of a session, or of a principal with every agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capset.clock import Clock
from capset.definitions.governance.allowances import Allowance
from capset.definitions.governance.limits import LimitScope, Per
from capset.definitions.principals import Principal
from capset.kernel.call.session_context import SessionContext
from capset.kernel.governance.limits import CallLimits
from capset.kernel.governance.quotas import CountedLimit, CountedUsage, Quotas, SessionLimits, session_limits
from capset.stores.base import Quota, Store


@dataclass(frozen=True, slots=True)
class Consumption:
    """One limited amount: of calls, of their cost, or of model usage.

    ``subject`` is its name in errors. ``window`` is in seconds, ``None`` for a budget. ``used`` is ``None`` if each
    process counts separately and this one does not know its count.
    """

    subject: str
    resource: str
    per: Per
    window: int | None
    scope: LimitScope
    most: float
    used: float | None


async def session_consumption(context: SessionContext) -> list[Consumption]:
    """Return what was used of a session's limits and budget, and of its tools' limits; budgets of runs are left out."""
    runtime, all_limits = context.runtime, context.limits or SessionLimits((), None, None)
    of_tools = [
        counted
        for installed in context.snapshot.installed.values()
        for counted in CallLimits(installed).counted_limits(context.id, context.principal)
    ]
    limits = list(dict.fromkeys((*all_limits.limits, *of_tools)))
    consumption = await _limit_consumption(runtime.store, runtime.clock, limits, runtime.quotas, runtime.monotonic_ns())
    if all_limits.session is not None:
        consumption += await _budget_consumption(runtime.store, all_limits.session)
    return consumption + await _usage_consumption(runtime.store, runtime.clock, all_limits.usage)


async def principal_consumption(
    store: Store, clock: Clock, principal: Principal, server: Allowance | None
) -> list[Consumption]:
    """Return what was used of the limits that a principal has with every agent: its own, and those of the server.

    Limits per session are left out.
    """
    allowances = (("server", server), ("principal", principal.allowance))
    all_limits = session_limits("", principal, agent="", agent_id=None, allowances=allowances, budgets=())
    if all_limits is None:
        return []
    limits = [counted for counted in all_limits.limits if counted.limit.per != "session"]
    usage = [counted for counted in all_limits.usage if counted.limit.per != "session"]
    return await _limit_consumption(store, clock, limits) + await _usage_consumption(store, clock, usage)


async def _limit_consumption(
    store: Store, clock: Clock, limits: Sequence[CountedLimit], quotas: Quotas | None = None, now: int = 0
) -> list[Consumption]:
    shared = [counted for counted in limits if counted.limit.scope == "shared"]
    counts = await store.admissions.counts([counted.window for counted in shared], clock.time_ns())
    used: dict[CountedLimit, int] = dict(zip(shared, counts, strict=True))
    if quotas is not None:
        used |= {counted: quotas.count(counted.key, now) for counted in limits if counted.limit.scope == "process"}
    return [
        Consumption(
            counted.label,
            "calls",
            counted.limit.per,
            counted.limit.window,
            counted.limit.scope,
            counted.limit.requests,
            used.get(counted),
        )
        for counted in limits
    ]


async def _budget_consumption(store: Store, quota: Quota) -> list[Consumption]:
    ((calls, cost),) = await store.admissions.spent([quota.owner])
    amounts = (("calls", quota.calls, calls), ("cost", quota.cost, cost))
    return [
        Consumption("this session", resource, "session", None, "shared", limit, used)
        for resource, limit, used in amounts
        if limit is not None
    ]


async def _usage_consumption(store: Store, clock: Clock, limits: Sequence[CountedUsage]) -> list[Consumption]:
    usages = await store.usage.read([counted.window for counted in limits], clock.time_ns())
    return [
        Consumption(
            counted.label,
            f"model_{name}",
            counted.limit.per,
            counted.limit.window,
            "shared",
            limit,
            float(getattr(usage.used, name)),
        )
        for counted, usage in zip(limits, usages, strict=True)
        for name, limit in counted.limit.maximums().items()
    ]
