"""Checks of the usage of models in windows, and of the reservations of running steps (spec 6, R24)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count
from typing import Final

from capset.definitions.governance.usage import AgentUsage, UsageLimit
from capset.stores.base import (
    ModelUser,
    StepClaim,
    Store,
    UsageQuery,
    UsageTotals,
    UsageWindow,
    WindowUsage,
)
from capset_testing.store_suite.support import Make, expect, open_store, session_row

_SECOND: Final = 1_000_000_000
_START: Final = 1_767_225_600 * _SECOND
_MINUTE: Final = UsageWindow("minute", 60 * _SECOND)
_HOUR: Final = UsageWindow("hour", 3_600 * _SECOND)
_STEP: Final = AgentUsage(steps=1, calls=2, tokens=1_000, cost=0.25, seconds=1.5)
_NONE: Final = AgentUsage()
_HIGH_LIMIT: Final = UsageLimit("1h", steps=1_000_000)
_IDS: Final = count()


def _claim(*windows: UsageWindow, limit: UsageLimit = _HIGH_LIMIT, maximum: AgentUsage = _NONE) -> StepClaim:
    return StepClaim(f"step-{next(_IDS)}", tuple((limit, window) for window in windows), maximum)


async def _use(store: Store, *windows: UsageWindow, now: int = _START, used: AgentUsage = _STEP) -> None:
    claim = _claim(*windows)
    await store.usage.reserve(claim, now)
    await store.usage.settle(claim, used, now)


async def _used(store: Store, *windows: UsageWindow, now: int = _START) -> list[AgentUsage]:
    return [usage.used for usage in await store.usage.read(windows, now)]


async def usage_is_summed_in_each_window(make: Make) -> None:
    """Check that usage counts in each of its windows, and in no other."""
    async with open_store(make) as store:
        expect(await _used(store, _MINUTE, _HOUR), [_NONE, _NONE], "the usage of new windows")
        await _use(store, _MINUTE, _HOUR)
        expect(await _used(store, _MINUTE, _HOUR), [_STEP, _STEP], "the first step")
        await _use(store, _HOUR, now=_START + 1)
        expect(await _used(store, _MINUTE, _HOUR, now=_START + 1), [_STEP, _STEP + _STEP], "both windows")
        expect(await store.usage.read([], _START), [], "no window")


async def usage_counts_as_long_as_its_window(make: Make) -> None:
    """Check that each part counts until it has fully expired, at most a sixtieth longer than the window."""
    async with open_store(make) as store:
        await _use(store, _MINUTE)
        await _use(store, _MINUTE, now=_START + 30 * _SECOND)
        for after, steps in ((59, 2), (60, 2), (61, 1), (90, 1), (91, 0)):
            (used,) = await _used(store, _MINUTE, now=_START + after * _SECOND)
            expect(used.steps, steps, f"the steps that count after {after} seconds")
        # A clock that is set back frees nothing.
        (used,) = await _used(store, _MINUTE, now=_START - 3_600 * _SECOND)
        expect(used.steps, 2, "the steps an hour before")


async def usage_of_a_session_goes_with_it(make: Make) -> None:
    """Check that usage in a window without a length counts until its session is deleted.

    The window's key begins with the session's id. The reservations of the session's steps go too, and these steps no
    longer count in its windows.
    """
    async with open_store(make) as store:
        session_window, other = UsageWindow("session-1/all", None), UsageWindow("session-10/all", None)
        await store.sessions.create(session_row("session-1", "acme"))
        await _use(store, session_window, other)
        far = _START + 1_000 * 86_400 * _SECOND
        await _use(store, session_window, other, now=far)
        expect(await _used(store, session_window, other, now=far), [_STEP + _STEP] * 2, "the total usage")
        claim = _claim(session_window, other, maximum=_STEP)
        await store.usage.reserve(claim, far)
        await store.sessions.delete("session-1")
        gone, other_usage = await store.usage.read([session_window, other], far)
        expect(gone, WindowUsage(_NONE, _NONE), "the remaining usage of the session")
        expect(other_usage, WindowUsage(_STEP + _STEP, _STEP), "the remaining usage of another session")
        await store.usage.settle(claim, _STEP, far)
        expect(
            await _used(store, session_window, other, now=far), [_NONE, _STEP + _STEP + _STEP], "usage after the step"
        )


async def usage_is_counted_exactly(make: Make) -> None:
    """Check that of many steps settled at once, none is lost and none counts twice."""
    async with open_store(make) as store:
        claims = [_claim(_MINUTE, _HOUR, maximum=_STEP + _STEP) for _ in range(50)]
        await asyncio.gather(*[store.usage.reserve(claim, _START) for claim in claims])
        half = AgentUsage(steps=100, calls=200, tokens=100_000, cost=25.0, seconds=150.0)
        expect(await store.usage.read([_HOUR], _START), [WindowUsage(_NONE, half)], "what is reserved")
        twice = [*claims, *claims[:10]]
        await asyncio.gather(*[store.usage.settle(claim, _STEP, _START + at) for at, claim in enumerate(twice)])
        expected = AgentUsage(steps=50, calls=100, tokens=50_000, cost=12.5, seconds=75.0)
        usages = await store.usage.read([_MINUTE, _HOUR], _START + 50)
        expect(usages, [WindowUsage(expected, _NONE)] * 2, "the usage")


async def steps_reserve_what_is_left(make: Make) -> None:
    """Check that as many concurrent steps begin as there is room for, each in all of its windows or in none."""
    async with open_store(make) as store:
        few, tokens = UsageLimit("1m", steps=7), UsageLimit("1h", tokens=10_000)
        maximum = AgentUsage(steps=1, tokens=3_000)
        claims = [StepClaim(f"few-{number}", ((few, _MINUTE), (_HIGH_LIMIT, _HOUR)), maximum) for number in range(20)]
        reservations = await asyncio.gather(*[store.usage.reserve(claim, _START) for claim in claims])
        begun = [claim for claim, before in zip(claims, reservations, strict=True) if claim.has_room(before)]
        expect(len(begun), 7, "how many steps have begun")
        reserved = AgentUsage(steps=7, tokens=21_000)
        usages = await store.usage.read([_MINUTE, _HOUR], _START)
        expect(usages, [WindowUsage(_NONE, reserved)] * 2, "what is reserved in each window")
        large = StepClaim("large", ((tokens, _HOUR),), maximum)
        expect(large.has_room(await store.usage.reserve(large, _START)), False, "room beside running steps")
        for claim in begun[:5]:
            await store.usage.settle(claim, AgentUsage(steps=1, tokens=500), _START)
        expect(large.has_room(await store.usage.reserve(large, _START)), True, "room when most are settled")
        late = replace(claims[0], step="late")
        before = await store.usage.reserve(late, _START)
        expect((late.has_room(before), late.exhausted_limit(before)), (False, None), "room for an eighth step")
        for claim in begun[5:]:
            await store.usage.settle(claim, AgentUsage(steps=1), _START)
        exhausted = late.exhausted_limit(await store.usage.reserve(late, _START))
        expect(exhausted, (0, AgentUsage(steps=7, tokens=2_500)), "the exhausted limit")
        await store.usage.settle(large, _NONE, _START)
        expect((await store.usage.read([_HOUR], _START))[0].reserved, _NONE, "what is reserved in the end")


async def calls_that_are_refused_do_not_count(make: Make) -> None:
    """Check that calls of an answer over a limit do not count, but the rest of its usage does."""
    async with open_store(make) as store:
        limit = UsageLimit("1h", calls=3)
        claims = [_claim(_HOUR, limit=limit) for _ in range(2)]
        for claim, exceeded in zip(claims, (None, (0, _STEP + _STEP)), strict=True):
            await store.usage.reserve(claim, _START)
            expect(
                claim.exceeded_limit(await store.usage.settle(claim, _STEP, _START), _STEP),
                exceeded,
                "what is exceeded",
            )
        expect(await _used(store, _HOUR), [replace(_STEP + _STEP, calls=2)], "the usage")


async def usage_is_counted_by_hour_agent_and_principal(make: Make) -> None:
    """Check the sums by hour, and of the agents and principals with the highest cost, of one org."""
    async with open_store(make) as store:
        ada = ModelUser("acme", "scribe", "ada", "user")
        bot = ModelUser("acme", "clerk", "bot", "agent")
        hours = ("2026-01-01T00", "2026-01-01T01", "2026-01-01T02")
        expect(await store.usage.totals(UsageQuery("acme", hours[0], hours[2])), UsageTotals((), (), ()), "no usage")
        cheap = replace(_STEP, cost=0.0)
        for user, used, hour in ((ada, _STEP, 0), (ada, _STEP, 1), (bot, cheap, 1), (ada, _STEP, 2)):
            await store.usage.count(user, used, _START + hour * 3_600 * _SECOND)
        for org in ("other", None):
            await store.usage.count(replace(ada, org=org), _STEP, _START)
        totals = await store.usage.totals(UsageQuery("acme", hours[0], hours[2]))
        expect(totals.hours, ((hours[0], _STEP), (hours[1], _STEP + cheap)), "the hours, without the last")
        expect(totals.agents, (("scribe", _STEP + _STEP), ("clerk", cheap)), "the agents")
        expect(totals.principals, (("user:ada", _STEP + _STEP), ("agent:bot", cheap)), "the principals")
        totals = await store.usage.totals(UsageQuery("acme", hours[0], hours[2], agent="clerk", principal="bot"))
        expect((totals.hours, totals.agents), (((hours[1], cheap),), (("clerk", cheap),)), "of one agent")
        totals = await store.usage.totals(UsageQuery("acme", hours[0], hours[2], top=1))
        expect(totals.agents, (("scribe", _STEP + _STEP),), "the agent with the highest cost")
        totals = await store.usage.totals(UsageQuery(None, hours[0], hours[2]))
        expect(totals.hours, ((hours[0], _STEP),), "of no org")
        await store.usage.count(bot, _STEP, _START + 401 * 86_400 * _SECOND)
        expect((await store.usage.totals(UsageQuery("acme", hours[0], hours[2]))).hours, (), "usage of 400 days ago")


async def steps_end_with_their_store(make: Make) -> None:
    """Check that reservations end when the store is closed and opened again."""
    async with open_store(make) as store:
        claim = _claim(_HOUR, maximum=_STEP)
        await store.usage.reserve(claim, _START)
        await store.close()
        await store.open()
        expect(await store.usage.read([_HOUR], _START), [WindowUsage(_NONE, _NONE)], "what is reserved")
