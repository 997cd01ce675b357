"""A cache of lookups: those who ask at once share one, and who leaves takes it from no other (spec 4, G54)."""

from __future__ import annotations

import asyncio

from capset.kernel.ttl_cache import TtlCache
from tests.waiting import until


class Slow:
    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        await self.may_answer.wait()
        return number

    async def begin(self, number: int) -> None:
        await until(lambda: self.asked >= number, "the lookup to begin")


async def test_those_who_ask_at_once_share_one_lookup() -> None:
    cache, look_up = TtlCache[str, int](60.0), Slow()
    asking = [asyncio.create_task(cache.get("key", look_up)) for _ in range(100)]
    await look_up.begin(1)
    asking[0].cancel()
    await asyncio.sleep(0)
    look_up.may_answer.set()
    assert set(await asyncio.gather(*asking[1:])) == {1}
    assert asking[0].cancelled()
    assert await cache.get("key", look_up) == look_up.asked == 1


async def test_who_asks_afresh_or_after_a_change_gets_an_answer_that_began_later() -> None:
    cache, look_up = TtlCache[str, int](60.0), Slow()
    first = asyncio.create_task(cache.get("key", look_up))
    await look_up.begin(1)
    afresh = asyncio.create_task(cache.get_since("key", look_up, 0.0))
    await look_up.begin(2)
    cache.invalidate(lambda key, value: True)
    later = asyncio.create_task(cache.get("key", look_up))
    await look_up.begin(3)
    look_up.may_answer.set()
    assert (await first, (await afresh)[1], await later) == (1, 2, 3)
    assert await cache.get("key", look_up) == 3, "those from before the change are not kept"


async def test_an_error_is_for_all_who_wait_and_is_not_kept() -> None:
    cache, attempts = TtlCache[str, int](60.0), 0

    async def look_up() -> int:
        nonlocal attempts
        attempts += 1
        await asyncio.sleep(0)
        if attempts == 1:
            raise OSError("away")
        return attempts

    results = await asyncio.gather(*(cache.get("key", look_up) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [OSError] * 3
    assert await cache.get("key", look_up) == 2
