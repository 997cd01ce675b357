"""The items of the writer's queue, and the delivery of answers from its thread to event loops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from capset.stores.base import Claim, Entry

Loop = asyncio.AbstractEventLoop


@dataclass(frozen=True, slots=True, eq=False)
class Waiter:
    """A waiting task on an event loop. The type of its answer depends on the item it waits for."""

    loop: Loop = field(default_factory=asyncio.get_running_loop)
    future: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True, slots=True, eq=False)
class Durable:
    """An entry whose caller waits until it is durable."""

    entry: Entry
    waiter: Waiter = field(default_factory=Waiter)


@dataclass(frozen=True, slots=True, eq=False)
class QueueCall:
    """A write function whose caller waits for its result; for a lock, until a time in ``time.monotonic()`` seconds."""

    function: Callable[[Connection], Any]
    until: float
    waiter: Waiter = field(default_factory=Waiter)


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """A call to be counted, with its intent if it has one; its caller waits for a lock as that of a ``QueueCall``."""

    claim: Claim
    entry: Entry | None
    until: float
    waiter: Waiter = field(default_factory=Waiter)


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """A caller that waits until everything before is durable."""

    waiter: Waiter = field(default_factory=Waiter)


@dataclass(frozen=True, slots=True, eq=False)
class QueueAnswer:
    """The answer to one waiter: a value, or an error to raise there."""

    waiter: Waiter
    value: Any = None
    error: Exception | None = None


def tell(answers: Iterable[QueueAnswer]) -> None:
    """Deliver answers, from any thread: one wake-up for each loop, regardless of its number of waiters."""
    loops: dict[Loop, list[QueueAnswer]] = {}
    for answer in answers:
        loops.setdefault(answer.waiter.loop, []).append(answer)
    for loop, for_loop in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, and its waiters are gone with it
            loop.call_soon_threadsafe(_resolve, for_loop)


def _resolve(answers: list[QueueAnswer]) -> None:
    for answer in answers:
        future = answer.waiter.future
        if future.done():  # cancelled in the meantime
            continue
        if answer.error is None:
            future.set_result(answer.value)
        else:
            future.set_exception(answer.error)
