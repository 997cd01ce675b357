"""Memory and transfers of requests, with limits for each caller and organisation (spec 5, P15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from capset.definitions.principals import Principal
from capset.kernel.call.fair_slots import FairSlots, Owner, owner_of
from capset_server.http.request_rules import HttpRefusal, overloaded

OWN_TRANSFERS: Final = 2
"""The maximum number of concurrent large bodies and downloads of one principal."""
ORG_TRANSFERS: Final = 8
"""The same for one organisation."""
MEMORY_UNIT: Final = 64 * 1024
"""The bytes of memory for JSON in one slot."""


class Transfers:
    """Limits the concurrent large bodies and downloads of each principal, and of each organisation."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._of_owner = WeakValueDictionary[Owner, asyncio.Semaphore]()
        self._of_org = WeakValueDictionary[tuple[str | None], asyncio.Semaphore]()

    @asynccontextmanager
    async def take(self, principal: Principal) -> AsyncGenerator[None]:
        """Wait until one more may begin. Raises ``HttpRefusal`` if none ends in time."""
        owner = owner_of(principal)
        owner_semaphore = self._of_owner.setdefault(owner, asyncio.Semaphore(OWN_TRANSFERS))
        shared = self._of_org.setdefault((owner.org,), asyncio.Semaphore(ORG_TRANSFERS))
        async with AsyncExitStack() as taken:
            try:
                async with asyncio.timeout(self._seconds):
                    await taken.enter_async_context(owner_semaphore)
                    await taken.enter_async_context(shared)
            except TimeoutError:
                refusal = HttpRefusal(
                    429,
                    "too_many_transfers",
                    f"At most {OWN_TRANSFERS} large bodies and downloads of a principal, and {ORG_TRANSFERS} of an "
                    f"organisation, may run at once; none ended within {self._seconds:g} seconds: retry later",
                    retryable=True,
                )
                refusal.retry_after = 1.0
                raise refusal from None
            yield


class Reservation:
    """Memory that a request holds for JSON, in slots of ``MEMORY_UNIT`` bytes."""

    def __init__(self, slots: FairSlots, principal: Principal, seconds: float) -> None:
        self._slots = slots
        self._owner = owner_of(principal)
        self._seconds = seconds
        self._units = 0

    def release(self) -> None:
        """Release all of it."""
        if self._units:
            self._slots.release(self._owner, self._units)
            self._units = 0

    async def grow(self, size: int) -> None:
        """Reserve at least ``size`` bytes in total. Raises ``HttpRefusal`` if no memory becomes free in time."""
        limit = (self._slots.total + 1) // 2  # the most that one caller can get
        more = min(-(-size // MEMORY_UNIT), limit) - self._units
        if more > 0 and not self._slots.try_acquire(self._owner, more):
            try:
                async with asyncio.timeout(self._seconds):
                    await self._slots.acquire(self._owner, more)
            except TimeoutError:
                raise overloaded(f"No memory for JSON became free within {self._seconds:g} seconds: retry") from None
        self._units += max(more, 0)
