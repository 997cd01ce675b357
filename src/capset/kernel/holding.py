"""One task at a time changes a value by reading it first, and none inside itself (spec 1, C34)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

from capset.errors import ConcurrentModificationError, StateError


class _Hold:
    """A lock that a task has; ``is_over`` once it gave it back, whatever tasks of its making still remember it."""

    __slots__ = ("is_over", "lock")

    def __init__(self, lock: asyncio.Lock) -> None:
        self.lock = lock
        self.is_over = False


_held: Final[ContextVar[tuple[_Hold, ...]]] = ContextVar("capset_held", default=())
"""What this task, or one that started it, holds."""


@asynccontextmanager
async def holding(lock: asyncio.Lock, what: str, end: float) -> AsyncGenerator[None]:
    """Hold a lock; ``end`` is in the event loop's time. Tasks that are started meanwhile know of it.

    Raises ``StateError`` where it would wait for itself, ``ConcurrentModificationError`` when the time is up.
    """
    if any(one.lock is lock and not one.is_over for one in _held.get()):
        raise StateError(
            f"{what} is being updated, and the function that updates it sets or updates it again: it would wait for "
            "itself",
            hint="return the new value from the function",
        )
    try:
        async with asyncio.timeout_at(end):
            await lock.acquire()
    except TimeoutError:
        raise ConcurrentModificationError(
            f"{what} was held by other updates until the time was up",
            hint="use patch, increment or push, which never contend, or try again",
        ) from None
    hold = _Hold(lock)
    token = _held.set((*_held.get(), hold))
    try:
        yield
    finally:
        hold.is_over = True
        _held.reset(token)
        lock.release()
