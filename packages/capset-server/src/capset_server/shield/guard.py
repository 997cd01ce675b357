"""The shield as the server uses it: a guard for each request, which holds the resources of the request."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Final, Self

from capset.definitions.principals import Principal
from capset.kernel.call.fair_slots import FairSlots, Owner, owner_of
from capset_server.http.request_rules import LARGE, HttpRefusal, RequestLimits
from capset_server.shield.capacity import MEMORY_UNIT, Reservation, Transfers
from capset_server.shield.fair_shares import (
    FILE_SECONDS,
    JSON_SECONDS,
    LARGE_SECONDS,
    WRITE_SECONDS,
    FairShares,
    Share,
    Turns,
    timed_tasks,
)

TURN_BODY: Final = 16 * 1024
"""Requests with larger bodies, in bytes, take turns."""
_UNKNOWN: Final = "\0unknown"
"""Takes the place of the organisation for callers without a credential. No organisation has this name."""


class RequestGuard:
    """The resources of a request, held inside the context. This class limits nothing: it is for unguarded requests."""

    def __enter__(self) -> Self:
        """Begin the request. Raises ``HttpRefusal`` if the server has no room for it."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Release what the request holds."""

    async def admit(self) -> None:
        """Wait until the caller may use more of the server. Raises ``HttpRefusal`` if it takes too long."""

    async def take_turn(self, size: int, *, writes: bool, is_file: bool) -> None:
        """Charge for a body that was read, and wait for a turn unless it is small. Raises ``HttpRefusal`` likewise."""

    async def grow(self, size: int) -> None:
        """Wait for memory for at least ``size`` bytes, and reserve it. Raises ``HttpRefusal`` likewise."""

    def transfer(self) -> AbstractAsyncContextManager[None]:
        """Return a context that waits for one of the caller's large transfers, and holds it. Raises likewise."""
        return nullcontext()


UNGUARDED: Final = RequestGuard()


class _Counted(RequestGuard):
    """The guard of a request that is charged to a share, and counted among the running ones if it has an owner."""

    def __init__(self, shield: Shield, share: Share, owner: Owner | None) -> None:
        self._shield = shield
        self._share = share
        self._owner = owner

    def __enter__(self) -> Self:
        if self._owner is not None and not self._shield.under_way.try_acquire(self._owner):
            refusal = HttpRefusal(
                429,
                "too_many_requests",
                "Too many requests of this caller or its organisation are under way: wait for some to end",
                retryable=True,
            )
            refusal.retry_after = 1.0
            raise refusal
        return self

    def __exit__(self, *raised: object) -> None:
        if self._owner is not None:
            self._shield.under_way.release(self._owner)

    async def admit(self) -> None:
        await self._shield.shares.admit(self._share)


class _OfCaller(_Counted):
    """The guard of a request whose caller is known."""

    def __init__(self, shield: Shield, principal: Principal) -> None:
        super().__init__(shield, shield.shares.enter(principal), owner_of(principal))
        self._principal = principal
        self._memory: Reservation | None = None
        self._end_turn: Callable[[], None] | None = None

    def __exit__(self, *raised: object) -> None:
        if self._end_turn is not None:
            self._end_turn()
        if self._memory is not None:
            self._memory.release()
        super().__exit__(*raised)

    async def take_turn(self, size: int, *, writes: bool, is_file: bool) -> None:
        if writes:
            rate = FILE_SECONDS if is_file else JSON_SECONDS
            self._share.charge(WRITE_SECONDS + rate * size / 2**20, time.perf_counter())
        if size > TURN_BODY:
            # Work on a smaller body takes less time, and afterwards a call may wait for its tool.
            max_seconds = LARGE_SECONDS * min(1.0, size / LARGE)
            self._end_turn = await self._shield.turns.begin(self._principal, max_seconds=max_seconds, admit=self.admit)

    async def grow(self, size: int) -> None:
        if self._memory is None:
            self._memory = Reservation(self._shield.memory, self._principal, self._shield.limits.share_seconds)
        await self._memory.grow(size)

    def transfer(self) -> AbstractAsyncContextManager[None]:
        return self._shield.transfers.take(self._principal)


class Shield:
    """The guards of a server's requests. If ``limits.shield`` is off, they limit nothing."""

    def __init__(self, limits: RequestLimits) -> None:
        self.limits: Final = limits
        self.shares: Final = FairShares(limits)
        self.turns: Final = Turns(limits.share_seconds)
        self.memory: Final = FairSlots(limits.memory // MEMORY_UNIT)
        self.transfers: Final = Transfers(limits.share_seconds)
        self.under_way: Final = FairSlots(limits.connections * 9 // 10)

    def guard(self, principal: Principal) -> RequestGuard:
        """Return the guard of a request of this caller."""
        return _OfCaller(self, principal) if self.limits.shield else UNGUARDED

    def guard_unknown(self, address: str, *, is_open: bool, asks_health: bool) -> RequestGuard:
        """Return the guard of a request from this address whose caller is unknown, or not known yet.

        A request that needs no caller, ``is_open``, counts among the running ones unless it ``asks_health``.
        """
        if not self.limits.shield:
            return UNGUARDED
        share = self.shares.enter_unknown(address, asks_health=asks_health)
        return _Counted(self, share, Owner(_UNKNOWN, address) if is_open and not asks_health else None)

    def timing(self) -> AbstractContextManager[None]:
        """Return a context in which the tasks and threads of the running loop are timed."""
        return timed_tasks() if self.limits.shield else nullcontext()
