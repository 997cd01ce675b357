"""Slots shared fairly between organisations, and between the principals of one (spec 3, K21, K22)."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple, TypeVar

from capset.definitions.principals import Principal

K = TypeVar("K")
ORG_SHARE: Final = 3
"""An organisation gets another slot only while it occupies fewer than this many times the number of free slots."""


class Owner(NamedTuple):
    """The organisation and principal that occupy a slot or wait for one."""

    org: str | None
    principal: str


def owner_of(principal: Principal) -> Owner:
    """Return the owner of the slots that a principal's calls occupy."""
    return Owner(principal.org, principal.id)


class FairSlots:
    """A fixed number of slots. A principal gets another slot only while it occupies fewer than are free.

    So one principal can hold at most half of the slots, rounded up, one organisation about three quarters, and each
    further one a share of the rest. Even after a caller that takes all it can, the next one still finds a slot, unless
    there is only one. Waiters take turns: first the organisations, then the principals of each, in order of arrival.
    Several slots at once are granted as if they were taken one by one.
    """

    __slots__ = ("_slots_by_org", "_slots_by_owner", "_waiters", "free", "total", "waiting")

    def __init__(self, total: int) -> None:
        self.total: Final = total
        self.free = total
        self.waiting = 0
        """Number of waiters."""
        self._slots_by_owner: dict[Owner, int] = {}
        self._slots_by_org: dict[str | None, int] = {}
        # Dictionaries serve as queues: they keep their order and can drop any entry. The values are numbers of slots.
        self._waiters: dict[str | None, dict[Owner, dict[asyncio.Future[None], int]]] = {}

    @property
    def occupied(self) -> int:
        """Number of occupied slots."""
        return self.total - self.free

    def try_acquire(self, owner: Owner, slots: int = 1) -> bool:
        """Occupy slots if this owner may have them now; return whether it may.

        This overtakes no waiter: each one that could have a slot got it when it became free.
        """
        if not self._can_acquire(owner, slots):
            return False
        self._occupy(owner, slots)
        return True

    async def acquire(self, owner: Owner, slots: int = 1) -> None:
        """Occupy slots as soon as it is this owner's turn."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(owner.org, {}).setdefault(owner, {})[waiter] = slots
        self.waiting += 1
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._remove_waiter(owner, waiter)
                self._wake_waiters()  # the waiters behind it may want fewer
            else:
                self.release(owner, slots)  # it got its slots just before
            raise

    def release(self, owner: Owner, slots: int = 1) -> None:
        """Free slots, and give them to the waiters that may have them."""
        self.free += slots
        _subtract(self._slots_by_owner, owner, slots)
        _subtract(self._slots_by_org, owner.org, slots)
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        while self._waiters and (next_waiter := self._next_waiter()) is not None:
            owner, waiter, slots = next_waiter
            self._occupy(owner, slots)
            self._remove_waiter(owner, waiter)
            waiter.set_result(None)

    def _can_acquire(self, owner: Owner, slots: int) -> bool:
        before = slots - 1  # slots taken before the last one
        free = self.free - before
        return (
            self._slots_by_owner.get(owner, 0) + before < free
            and self._slots_by_org.get(owner.org, 0) + before < ORG_SHARE * free
        )

    def _occupy(self, owner: Owner, slots: int) -> None:
        self.free -= slots
        self._slots_by_owner[owner] = self._slots_by_owner.get(owner, 0) + slots
        self._slots_by_org[owner.org] = self._slots_by_org.get(owner.org, 0) + slots

    def _next_waiter(self) -> tuple[Owner, asyncio.Future[None], int] | None:
        """Return the next waiter, and move its organisation and its owner to the ends of their queues.

        A waiter is skipped only if its owner occupies too many slots, or asks for more than it may have now.
        """
        if not self.free:
            return None
        for org, owners in self._waiters.items():
            if self._slots_by_org.get(org, 0) >= ORG_SHARE * self.free:
                continue
            for owner, waiters in owners.items():
                for waiter, slots in waiters.items():
                    if not self._can_acquire(owner, slots):
                        break
                    if not waiter.done():  # else it was cancelled, and is about to leave
                        self._waiters[org] = self._waiters.pop(org)
                        owners[owner] = owners.pop(owner)
                        return owner, waiter, slots
        return None

    def _remove_waiter(self, owner: Owner, waiter: asyncio.Future[None]) -> None:
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
