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
    """A fixed number of slots. A principal that occupies as many as are free, or more, is never given another.

    So one principal has at most half of them, rounded up, one organisation about three quarters, and each further one a
    part of what is left: after a caller that takes all it can, the next one still finds a slot, unless there is only
    one slot. Those who wait take turns: the organisations first, then the principals of each, in the order in which
    they came. Several slots at once are given as if they were taken one by one.
    """

    __slots__ = ("_of_org", "_of_owner", "_waiters", "free", "total", "waiting")

    def __init__(self, total: int) -> None:
        self.total: Final = total
        self.free = total
        self.waiting = 0
        """Number of those who wait."""
        self._of_owner: dict[Owner, int] = {}
        self._of_org: dict[str | None, int] = {}
        # Dictionaries are queues here: they keep their order, and give up any entry at once. The values are slots.
        self._waiters: dict[str | None, dict[Owner, dict[asyncio.Future[None], int]]] = {}

    @property
    def occupied(self) -> int:
        """Number of occupied slots."""
        return self.total - self.free

    def take(self, owner: Owner, slots: int = 1) -> bool:
        """Occupy a slot, or several, if this owner may have them now; return whether it may.

        It overtakes none of those who wait: all that could have a slot were given one when it became free.
        """
        if not self._admits(owner, slots):
            return False
        self._occupy(owner, slots)
        return True

    async def wait(self, owner: Owner, slots: int = 1) -> None:
        """Occupy a slot, or several, as soon as it is this owner's turn."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(owner.org, {}).setdefault(owner, {})[waiter] = slots
        self.waiting += 1
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._forget(owner, waiter)
                self._give()  # those behind it may want fewer
            else:
                self.release(owner, slots)  # it was given a slot just before
            raise

    def release(self, owner: Owner, slots: int = 1) -> None:
        """Free a slot, or several, and give them to those who wait and may have them."""
        self.free += slots
        _subtract(self._of_owner, owner, slots)
        _subtract(self._of_org, owner.org, slots)
        self._give()

    def _give(self) -> None:
        while self._waiters and (next_waiter := self._next()) is not None:
            owner, waiter, slots = next_waiter
            self._occupy(owner, slots)
            self._forget(owner, waiter)
            waiter.set_result(None)

    def _admits(self, owner: Owner, slots: int) -> bool:
        before = slots - 1  # when the last of them is taken
        free = self.free - before
        return (
            self._of_owner.get(owner, 0) + before < free and self._of_org.get(owner.org, 0) + before < ORG_SHARE * free
        )

    def _occupy(self, owner: Owner, slots: int) -> None:
        self.free -= slots
        self._of_owner[owner] = self._of_owner.get(owner, 0) + slots
        self._of_org[owner.org] = self._of_org.get(owner.org, 0) + slots

    def _next(self) -> tuple[Owner, asyncio.Future[None], int] | None:
        """Return who is next, and move its organisation and itself to the ends of their queues.

        It skips only those who occupy slots, or ask for more of them than they may have now.
        """
        if not self.free:
            return None
        for org, owners in self._waiters.items():
            if self._of_org.get(org, 0) >= ORG_SHARE * self.free:
                continue
            for owner, waiters in owners.items():
                for waiter, slots in waiters.items():
                    if not self._admits(owner, slots):
                        break
                    if not waiter.done():  # else it was cancelled, and is about to leave
                        self._waiters[org] = self._waiters.pop(org)
                        owners[owner] = owners.pop(owner)
                        return owner, waiter, slots
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


def _subtract(counts: dict[K, int], key: K, slots: int) -> None:
    remaining = counts[key] - slots
    if remaining:
        counts[key] = remaining
    else:
        del counts[key]
