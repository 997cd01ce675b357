"""Fair shares of the event loop: between organisations, then between an organisation's principals (spec 5, P35).

Every step of a request's tasks, and the work of the loop's threads for it, is charged to its caller. The charge is CPU
time, since a step may have to wait for the threads of others. While the process is busy, requests of the caller that
has used it most wait until others have used it as much. Requests with large bodies also take turns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import Context, ContextVar
from math import exp
from time import perf_counter, process_time, thread_time
from types import TracebackType
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from capset.definitions.principals import Principal
from capset.kernel.call.fair_slots import FairSlots, Owner, owner_of
from capset_server.http.request_rules import RequestLimits, overloaded

T = TypeVar("T")

MEMORY_SECONDS: Final = 0.5
"""The time after which a charge has decayed to about a third."""
BUSY: Final = 0.5
"""The CPU usage of this process, as a fraction of a core, from which requests may have to wait."""
HUNGRY: Final = 0.03
"""The CPU usage of a share, as a fraction of a core, from which others wait for it although the loop is not late."""
LARGER: Final = 1.25
"""How many times the load of others a share must have before its requests wait. Of two equal shares, neither waits."""
LATE_SECONDS: Final = 0.003
"""The delay of the loop and its threads, for any reason, from which requests may have to wait."""
ACTIVE_SECONDS: Final = 0.25
"""How long after its last charge a share still counts as active, so that others leave time to it."""
WRITE_SECONDS: Final = 0.002
"""The charge for a request that writes. It is estimated, since the store's thread and its database do that work."""
JSON_SECONDS: Final = 0.4
"""The additional charge for each mebibyte of JSON."""
FILE_SECONDS: Final = 0.02
"""The additional charge for each mebibyte of a file: writing it takes about half, checkpoints take the rest."""
PART_SECONDS: Final = 0.01
"""The time that the tasks of an organisation may use in one iteration of the event loop."""
LARGE_SECONDS: Final = 0.25
"""The maximum time that a request with a large body makes others of its kind wait."""
BRIEF_SECONDS: Final = 0.001
"""Shorter steps are charged by the clock: that costs less than reading the CPU time, and they did not wait for long."""
_UNKNOWN: Final = ("unknown",)
"""The key of the share of unknown callers. Keys of organisations are strings, or ``None``."""
_PROBE: Final = "probe"
"""The first part of the keys of addresses that send health checks."""
_MEASURED_SECONDS: Final = 0.02
_TICK_SECONDS: Final = 0.002
_AT_ONCE: Final = 4
"""How many requests are admitted at one tick: of a share that need not wait, or of all others if the loop has time."""
_SETTLED_SECONDS: Final = 0.001
_KNOWN: Final = 1_000
"""Beyond this number, shares are forgotten once they have decayed."""


class Share:
    """The recent CPU time of a principal, an organisation or all callers, which decays. The three form a tree."""

    __slots__ = ("_at", "_children", "_iteration", "_parent", "_pending", "_seconds")

    def __init__(self, parent: Share | None = None) -> None:
        self._parent = parent
        self._children: dict[Hashable, Share] = {}
        self._seconds = self._at = self._pending = 0.0
        self._iteration = 0, 0.0

    def child(self, key: Hashable) -> Share:
        """Return a share within this one, and create it if it is missing."""
        child = self._children.get(key)
        if child is None:
            if len(self._children) > _KNOWN:
                until = perf_counter() - 10 * MEMORY_SECONDS
                self._children = {name: share for name, share in self._children.items() if share._at > until}
            child = self._children[key] = Share(self)
        return child

    def charge(self, seconds: float, now: float) -> None:
        """Charge a step that ended at ``now``, by ``perf_counter``. Small charges are added up first."""
        self._pending += seconds
        if self._pending < _SETTLED_SECONDS:
            return
        share: Share | None = self
        while share is not None:
            share._seconds = share.load(now) + self._pending
            share._at, share = now, share._parent
        self._pending = 0.0

    def has_had_its_part(self, iteration: int) -> bool:
        """Return whether this share's organisation has used up its time in an iteration of the loop."""
        number, seconds = (self._parent or self)._iteration
        return number == iteration and seconds >= PART_SECONDS

    def use_iteration(self, seconds: float, iteration: int) -> None:
        """Count the time of a step in an iteration of the loop."""
        share = self._parent or self
        number, before = share._iteration
        share._iteration = iteration, seconds + (before if number == iteration else 0.0)

    def load(self, now: float) -> float:
        """Return the decayed sum of all charges."""
        return self._seconds * exp((self._at - now) / MEMORY_SECONDS)

    def must_wait(self, now: float, min_load: float = 0.0) -> bool:
        """Return whether this share, or one that contains it, is the largest of several with at least ``min_load``."""
        parent = self._parent
        if parent is None:
            return False
        others = (share for share in parent._children.values() if share is not self and share.is_active(now, min_load))
        largest_load = max((share.load(now) for share in others), default=None)
        return (largest_load is not None and self.load(now) > LARGER * largest_load) or parent.must_wait(now, min_load)

    def is_active(self, now: float, min_load: float) -> bool:
        """Return whether it was charged a moment ago, and has at least ``min_load``."""
        return now - self._at < ACTIVE_SECONDS and self.load(now) >= min_load


CURRENT: Final[ContextVar[Share | None]] = ContextVar("capset_share", default=None)
"""The share of the caller that a task works for."""


class LoopIterations:
    """The number of the event loop's current iteration. Only iterations with timed steps are counted."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_counted = False
        self.number = 0

    def count(self) -> None:
        """Count the next iteration."""
        if not self._is_counted:
            self._is_counted = True
            self._loop.call_soon(self._begin, context=Context())

    def _begin(self) -> None:
        self._is_counted = False
        self.number += 1


class TimedCoroutine(Coroutine[Any, Any, Any]):
    """A task's coroutine whose steps are charged to the share of its context.

    Once an organisation has used up its time in an iteration of the loop, its steps wait for the next one. So the loop
    serves the requests of others in between, however many tasks of one organisation are ready at once.
    """

    __slots__ = ("__qualname__", "_coroutine", "_iterations")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], iterations: LoopIterations) -> None:
        self._coroutine = coroutine
        self._iterations = iterations
        self.__qualname__ = getattr(coroutine, "__qualname__", "coroutine")

    def __getattr__(self, name: str) -> Any:  # any attribute of the coroutine, such as cr_frame
        return getattr(self._coroutine, name)

    def __await__(self) -> Any:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        if (share := CURRENT.get()) is not None and share.has_had_its_part(self._iterations.number):
            return None  # as a bare yield: the task continues in the next iteration
        started, used = perf_counter(), thread_time()
        try:
            return self._coroutine.send(value)
        finally:
            if (share := CURRENT.get()) is not None:
                now = perf_counter()
                took = now - started
                seconds = took if took < BRIEF_SECONDS else thread_time() - used
                share.charge(seconds, now)
                share.use_iteration(seconds, self._iterations.number)
                self._iterations.count()

    def throw(self, typ: Any, val: BaseException | object = None, tb: TracebackType | None = None) -> Any:
        started = thread_time()
        try:
            return self._coroutine.throw(typ) if val is None else self._coroutine.throw(typ, val, tb)
        finally:
            del typ, val, tb  # otherwise the error holds itself through its traceback until it is garbage-collected
            if (share := CURRENT.get()) is not None:
                share.charge(thread_time() - started, perf_counter())

    def close(self) -> None:
        self._coroutine.close()


class TimedThreads(ThreadPoolExecutor):
    """The loop's own threads. Their work is charged to the share of the context that submits it."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a function, and charge its CPU time. If two threads charge at the same time, one charge may be lost.

        This loses a fraction of a millisecond; a lock would cost every step of every task more.
        """
        if (share := CURRENT.get()) is None:
            return super().submit(fn, *args, **kwargs)
        return super().submit(_run_charged, share, fn, *args, **kwargs)


def _run_charged(share: Share, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    started = thread_time()
    try:
        return function(*args, **kwargs)
    finally:
        share.charge(thread_time() - started, perf_counter())


@contextmanager
def timed_tasks() -> Generator[None]:
    """Time the steps of tasks that are created inside the context, and the loop's threads.

    This has no effect in a loop that already has a task factory.
    """
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is not None:
        yield
        return
    loop.set_task_factory(_factory(LoopIterations(loop)))
    threads = TimedThreads(thread_name_prefix="capset-loop")
    loop.set_default_executor(threads)
    try:
        yield
    finally:
        loop.set_task_factory(None)
        loop.set_default_executor(ThreadPoolExecutor())
        threads.shutdown(wait=False)


def _factory(iterations: LoopIterations) -> Callable[..., asyncio.Task[Any]]:
    def make(
        loop: asyncio.AbstractEventLoop, coroutine: Any, *, context: Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        return asyncio.Task(TimedCoroutine(coroutine, iterations), loop=loop, context=context, **options)

    return make


class FairShares:
    """The shares of a server's callers."""

    def __init__(self, limits: RequestLimits) -> None:
        self._seconds = limits.share_seconds
        self._all = Share()
        self._measured = perf_counter(), process_time(), 0.0
        self._waiting: dict[Share, deque[asyncio.Future[None]]] = {}
        self._releasing: asyncio.Task[None] | None = None

    def enter(self, principal: Principal) -> Share:
        """Charge this task, and the tasks that it starts, to a principal's share from now on. Return the share."""
        share = self._all.child(principal.org).child((principal.kind, principal.id))
        CURRENT.set(share)
        return share

    def enter_unknown(self, address: str, *, asks_health: bool = False) -> Share:
        """Charge this task to the share of an address whose credentials are not checked yet, or not needed. Return it.

        However many they are, all such addresses together form one share, next to those of organisations. An address
        that sends health checks has a share of its own, so that monitoring does not wait behind a flood of unknown
        callers.
        """
        share = self._all.child((_PROBE, address)) if asks_health else self._all.child(_UNKNOWN).child(address)
        CURRENT.set(share)
        return share

    async def admit(self, share: Share) -> None:
        """Wait while the loop has no time and this share is the largest. Raises ``HttpRefusal`` after too long."""
        if share not in self._waiting:
            now = perf_counter()
            if not share.must_wait(now):
                return
            has_time, min_load = await self._look()
            if has_time or not share.must_wait(now, min_load):
                return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting.setdefault(share, deque()).append(waiter)
        if self._releasing is None:
            # In a context of its own, so that its work is charged to no caller.
            self._releasing = loop.create_task(self._release(), context=Context())
        try:
            async with asyncio.timeout(self._seconds):
                await waiter
        except TimeoutError:
            raise overloaded(f"Callers with less usage had priority for {self._seconds:g} seconds: retry") from None

    async def _release(self) -> None:
        """Admit requests until none waits: those that need not wait any more, and others while the loop has time."""
        try:
            while self._waiting:
                await asyncio.sleep(_TICK_SECONDS)
                has_time, min_load = await self._look()
                now, spare = perf_counter(), _AT_ONCE if has_time else 0
                for share in sorted(self._waiting, key=lambda share: share.load(now)):
                    queue = self._waiting[share]
                    for _ in range(_AT_ONCE if not share.must_wait(now, min_load) else spare):
                        while queue and queue[0].done():  # its client left, or it has waited too long
                            queue.popleft()
                        if not queue:
                            break
                        spare -= spare > 0
                        queue.popleft().set_result(None)
                    if not queue:
                        del self._waiting[share]
        finally:
            self._releasing = None

    async def _look(self) -> tuple[bool, float]:
        """Return whether the loop has time, and the minimum load of others for which requests wait."""
        if await _delay() >= LATE_SECONDS:
            return False, 0.0
        wall, used, part = self._measured
        if (now := perf_counter()) - wall >= _MEASURED_SECONDS:
            part = (process_time() - used) / (now - wall)
            self._measured = now, process_time(), part
        return part < BUSY, HUNGRY * MEMORY_SECONDS


async def _delay() -> float:
    """Return how many seconds a thread and the loop take for work that takes no time, because they are busy."""
    started = perf_counter()
    await asyncio.to_thread(_do_nothing)
    return perf_counter() - started


def _do_nothing() -> None:
    """Do nothing."""


class Turns:
    """Exclusive turns: organisations take turns, and so do the principals of each."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._slot = FairSlots(1)
        self._own = WeakValueDictionary[Owner, asyncio.Lock]()

    @asynccontextmanager
    async def take(self, principal: Principal) -> AsyncGenerator[None]:
        """Wait for a turn, and hold it inside the context. Raises ``HttpRefusal`` if it takes too long."""
        end = await self.begin(principal)
        try:
            yield
        finally:
            end()

    async def begin(
        self,
        principal: Principal,
        *,
        max_seconds: float | None = None,
        admit: Callable[[], Awaitable[None]] | None = None,
    ) -> Callable[[], None]:
        """Wait for a turn, and return a function that ends it. It ends by itself after ``max_seconds``.

        ``admit`` is awaited after the principal's earlier work has ended and has been charged. If all work were
        admitted on arrival, none of it would wait for others. Raises ``HttpRefusal`` if it takes too long.
        """
        owner = owner_of(principal)
        owner_lock = self._own.setdefault(owner, asyncio.Lock())
        with ExitStack() as taken:
            try:
                async with asyncio.timeout(self._seconds):
                    await owner_lock.acquire()
                    taken.callback(owner_lock.release)
                    if admit is not None:
                        await admit()
                    if not self._slot.try_acquire(owner):
                        await self._slot.acquire(owner)
                    taken.callback(self._slot.release, owner)
            except TimeoutError:
                raise overloaded(f"This request did not get its turn within {self._seconds:g} seconds: retry") from None
            turn = taken.pop_all()
            if max_seconds is not None:
                turn.callback(asyncio.get_running_loop().call_later(max_seconds, turn.close).cancel)
            return turn.close
