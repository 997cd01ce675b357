"""Checks of the usage of models, in windows (spec 6, R24)."""

from __future__ import annotations

import asyncio
from typing import Final

from capset.definitions.usage import AgentUsage
from capset.stores.base import UsageWindow
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


CHECKS: Final[tuple[Check, ...]] = (
    usage_is_summed_in_each_window,
    usage_counts_as_long_as_its_window,
    usage_of_a_session_goes_with_it,
    usage_is_counted_exactly,
)
"""The checks of usage that every store passes."""
