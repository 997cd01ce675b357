"""Checks of the usage of models, in windows (spec 6, R24)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from capset.definitions.usage import AgentUsage
from capset.stores.base import Claim, Quota, UsageWindow, Window
from capset.testing.store_suite.support import Check, Make, expect, opened, session_row

_SECOND: Final = 1_000_000_000
_START: Final = 1_767_225_600 * _SECOND
_MINUTE: Final = UsageWindow("minute", 60 * _SECOND)
_HOUR: Final = UsageWindow("hour", 3_600 * _SECOND)
_STEP: Final = AgentUsage(steps=1, calls=2, tokens=1_000, cost=0.25, seconds=1.5)
_NONE: Final = AgentUsage()


async def usage_is_summed_in_each_window(make: Make) -> None:
    """In each of the windows that it counts in, and in no other."""
    async with opened(make) as store:
        usage = store.usage
        expect(await usage.read([_MINUTE, _HOUR], _START), [_NONE, _NONE], "what is used of new windows")
        expect(await usage.add([_MINUTE, _HOUR], _STEP, _START), [_STEP, _STEP], "the first step")
        expect(await usage.add([_HOUR], _STEP, _START + 1), [_STEP + _STEP], "the second step")
        expect(await usage.read([_MINUTE, _HOUR], _START + 1), [_STEP, _STEP + _STEP], "both windows")
        expect(await usage.read([], _START), [], "no window")


async def usage_counts_as_long_as_its_window(make: Make) -> None:
    """Each part counts until it is wholly over, at most a sixtieth longer than the window; two parts go one by one."""
    async with opened(make) as store:
        usage = store.usage
        await usage.add([_MINUTE], _STEP, _START)
        await usage.add([_MINUTE], _STEP, _START + 30 * _SECOND)
        for after, left in ((59, 2), (60, 2), (61, 1), (90, 1), (91, 0)):
            found = (await usage.read([_MINUTE], _START + after * _SECOND))[0].steps
            expect(found, left, f"the steps that count after {after} seconds")
        # A clock that is set back frees nothing.
        expect((await usage.read([_MINUTE], _START - 3_600 * _SECOND))[0].steps, 2, "the steps an hour before")


async def usage_of_a_session_goes_with_it(make: Make) -> None:
    """Without a length it counts for ever; it is deleted with the session whose id its key begins with."""
    async with opened(make) as store:
        usage = store.usage
        own, other = UsageWindow("session-1/all", None), UsageWindow("session-10/all", None)
        await store.sessions.create(session_row("session-1", "acme"))
        await usage.add([own, other], _STEP, _START)
        far = _START + 1_000 * 86_400 * _SECOND
        expect(await usage.add([own, other], _STEP, far), [_STEP + _STEP] * 2, "what was used in all")
        await store.sessions.delete("session-1")
        expect(await usage.read([own, other], far), [_NONE, _STEP + _STEP], "what is left")


async def usage_is_counted_exactly(make: Make) -> None:
    """Of many that are counted at once, none is lost."""
    async with opened(make) as store:
        await asyncio.gather(*[store.usage.add([_MINUTE, _HOUR], _STEP, _START + one) for one in range(50)])
        found = await store.usage.read([_MINUTE, _HOUR], _START + 50)
        wanted = AgentUsage(steps=50, calls=100, tokens=50_000, cost=12.5, seconds=75.0)
        expect(found, [wanted, wanted], "what was used")


async def what_counts_of_calls_can_be_asked(make: Make) -> None:
    """Return the calls in each window as time goes, and what was used of budgets."""
    second, start = 1_000_000_000, 1_767_225_600 * 1_000_000_000
    minute, ten = Window("minute", 3, 60 * second), Window("ten seconds", 2, 10 * second)
    quota = Quota("session-1", 9, None)
    claims = [
        Claim(f"c{number}", lambda at=start + 4 * number * second: at, (minute,), (quota,), 0.5) for number in range(3)
    ]
    async with opened(make) as store:
        for claim in (*claims, Claim("d", lambda: start + 12 * second, (ten,))):
            await store.admissions.admit(claim, None)

        async def counts(at: float) -> list[int]:
            windows = [minute, ten, replace(minute, key="unknown")]
            return await store.admissions.counts(windows, start + round(at * second))

        expect(await counts(12), [3, 1, 0], "what counts at once")
        expect(await counts(0), [3, 1, 0], "what counts by a clock that was set back")
        expect(await counts(60), [2, 0, 0], "what counts when the first has expired")
        expect(await counts(67.9), [1, 0, 0], "what counts when the second has, too")
        expect(await counts(68), [0, 0, 0], "what counts in the end")
        await store.admissions.release(claims[1])
        expect((await counts(12))[0], 2, "what counts when one was released")
        expect(await store.admissions.spent(["session-1", "other"]), [(2, 1.0), (0, 0.0)], "what was used of budgets")


CHECKS: Final[tuple[Check, ...]] = (
    what_counts_of_calls_can_be_asked,
    usage_is_summed_in_each_window,
    usage_counts_as_long_as_its_window,
    usage_of_a_session_goes_with_it,
    usage_is_counted_exactly,
)
"""The checks of usage that every store passes."""
