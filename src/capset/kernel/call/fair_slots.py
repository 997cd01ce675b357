"""Slots shared fairly between organisations, and between the principals of one (spec 3, K21, K22)."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, TypeVar

from capset.definitions.principals import Principal

K = TypeVar("K")
ORG_SHARE: Final = 3
"""An organisation starts one more while it occupies fewer than this many times the slots that are free."""


class Owner(NamedTuple):
    """Who occupies a slot, or waits for one."""

    org: str | None
    principal: str


def owner_of(principal: Principal) -> Owner:
    """Return the owner of what a principal's calls occupy."""
    return Owner(principal.org, principal.id)


class FairSlots:
    """A fixed number of slots. None is ever given to a principal that occupies as many as are free, or more.

    So one principal has at most half of them, rounded up, one organisation about three quarters, and each further one
    a part of what they leave: the next caller after one that takes all it can finds a slot, unless there is only one.
    Those who wait take turns: the organisations first, then the principals of each, in the order in which they came.
    """

    __slots__ = ("_of_org", "_of_owner", "_waiters", "free", "total", "waiting")

    def __init__(self, total: int) -> None:
        self.total: Final = total
        self.free = total
        self.waiting = 0
        """Number of those who wait."""
        self._of_owner: dict[Owner, int] = {}
        self._of_org: dict[str | None, int] = {}
        # Dictionaries are queues here: they keep their order, and give up any entry at once.
        self._waiters: dict[str | None, dict[Owner, dict[asyncio.Future[None], None]]] = {}

    @property
    def occupied(self) -> int:
        """Number of occupied slots."""
        return self.total - self.free

    def take(self, owner: Owner) -> bool:
        """Occupy a slot if there is one for this owner now; return whether there was.

        It passes by none of those who wait: any that could have a slot was given one when it became free.
        """
        if not self._admits(owner):
            return False
        self._occupy(owner)
        return True

    async def wait(self, owner: Owner) -> None:
        """Occupy a slot as soon as it is this owner's turn."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(owner.org, {}).setdefault(owner, {})[waiter] = None
        self.waiting += 1
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._forget(owner, waiter)
            else:
                self.release(owner)  # it was given a slot just before
            raise

    def release(self, owner: Owner) -> None:
        """Give a slot back, to those who wait if they may have it."""
        self.free += 1
        _subtract(self._of_owner, owner)
        _subtract(self._of_org, owner.org)
        while self._waiters and (found := self._next()) is not None:
            self._occupy(found[0])
            self._forget(*found)
            found[1].set_result(None)

    def _admits(self, owner: Owner) -> bool:
        free = self.free
        return self._of_owner.get(owner, 0) < free and self._of_org.get(owner.org, 0) < ORG_SHARE * free

    def _occupy(self, owner: Owner) -> None:
        self.free -= 1
        self._of_owner[owner] = self._of_owner.get(owner, 0) + 1
        self._of_org[owner.org] = self._of_org.get(owner.org, 0) + 1

    def _next(self) -> tuple[Owner, asyncio.Future[None]] | None:
        """Return who is next, and move its organisation and itself to the ends of their queues.

        It passes by only those who occupy slots, so it looks at no more of them than there are slots.
        """
        if not self.free:
            return None
        for org, owners in self._waiters.items():
            if self._of_org.get(org, 0) >= ORG_SHARE * self.free:
                continue
            for owner, waiters in owners.items():
                if self._of_owner.get(owner, 0) >= self.free:
                    continue
                for waiter in waiters:
                    if not waiter.done():  # else it was cancelled, and is about to leave
                        self._waiters[org] = self._waiters.pop(org)
                        owners[owner] = owners.pop(owner)
                        return owner, waiter
        return None

    def _forget(self, owner: Owner, waiter: asyncio.Future[None]) -> None:
        self.waiting -= 1
        owners = self._waiters[owner.org]
        waiters = owners[owner]
        del waiters[waiter]
        if not waiters:
            del owners[owner]
            if not owners:
                del self._waiters[owner.org]


def _subtract(counts: dict[K, int], key: K) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]
