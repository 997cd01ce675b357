"""The shield as the server uses it: a guard for each request, which holds what the request has of the server."""

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
"""Stands for the organisation of all callers without a credential; none has such a name."""


class RequestGuard:
    """A request's part of the server, held while inside. This class is that of requests which the shield lets pass."""

    def __enter__(self) -> Self:
        """Begin the request. Raises ``HttpRefusal`` if the server has no room for it."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Give back what the request holds."""

    async def admit(self) -> None:
        """Wait until the caller may have more of the server. Raises ``HttpRefusal`` after too long."""

    async def take_turn(self, size: int, *, writes: bool, is_file: bool) -> None:
        """Have a body paid for that has been read, and wait for its turn if it is not small. Raises ``HttpRefusal``."""

    async def grow(self, size: int) -> None:
        """Hold memory for this many bytes at least, as soon as there is room. Raises ``HttpRefusal`` after too long."""

    def transfer(self) -> AbstractAsyncContextManager[None]:
        """Return what waits for one of the caller's large transfers, and holds it. Raises ``HttpRefusal`` likewise."""
        return nullcontext()


UNGUARDED: Final = RequestGuard()


class _Counted(RequestGuard):
    """The guard of a request that is one of those under way, and charged to a share."""

    def __init__(self, shield: Shield, share: Share, owner: Owner | None) -> None:
        self._shield = shield
        self._share = share
        self._owner = owner

    def __enter__(self) -> Self:
        if self._owner is not None and not self._shield.under_way.take(self._owner):
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
            # What is done with a smaller body takes less time, and after that a call may wait for its tool.
            max_seconds = LARGE_SECONDS * min(1.0, size / LARGE)
            self._end_turn = await self._shield.turns.begin(self._principal, max_seconds=max_seconds, admit=self.admit)

    async def grow(self, size: int) -> None:
        if self._memory is None:
            self._memory = Reservation(self._shield.memory, self._principal, self._shield.limits.share_seconds)
        await self._memory.grow(size)

    def transfer(self) -> AbstractAsyncContextManager[None]:
        return self._shield.transfers.take(self._principal)


class Shield:
    """The guards of a server's requests; with ``limits.shield`` off, they hold nothing and let everything pass."""

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
        """Return the guard of a request from this address whose caller is not known, or not yet.

        ``is_open`` is whether it needs no caller: then it counts among those under way, unless it ``asks_health``.
        """
        if not self.limits.shield:
            return UNGUARDED
        share = self.shares.enter_unknown(address, asks_health=asks_health)
        return _Counted(self, share, Owner(_UNKNOWN, address) if is_open and not asks_health else None)

    def timing(self) -> AbstractContextManager[None]:
        """Return what has the tasks and threads of the running loop timed while inside."""
        return timed_tasks() if self.limits.shield else nullcontext()
