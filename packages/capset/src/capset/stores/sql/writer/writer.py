"""The single writer of a process: a thread that collects items and commits them in groups (spec 4, G21, G23).

``append`` costs the event loop a fraction of a microsecond, and a durable write shares its fsync with everything that
waits at the same time. The order of the queue is the order of the chain. Nothing is dropped: while the database cannot
be written, buffered entries wait in order, up to a bound, and callers that wait for durability get an error at once.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from capset.errors import StoreError, counted
from capset.ids import Ids
from capset.stores.base import Claim, Entry
from capset.stores.sql.problems import is_idle_timeout, is_locked, store_error
from capset.stores.sql.writer.batch import Admission, Barrier, Batch, DurableEntry, Item, QueueCall, deliver_answers
from capset.stores.sql.writer.leases import Leases
from capset.stores.sql.writer.transaction import RecoveryState, TransactionWork, transact

MAX_QUEUED: Final = 10_000
"""Maximum number of entries waiting to be written."""
PATIENCE_SECONDS: Final = 30.0
"""How long a write function is retried while other processes write, before its caller gets an error."""
MAX_BATCH: Final = 1_000
"""Maximum number of items in one transaction. Later items wait for its end."""

_T = TypeVar("_T")
_logger = logging.getLogger("capset.stores")


class Writer:
    """The thread, its queue and its interface. ``name`` is the database's, for error messages."""

    def __init__(
        self, name: str, leases: Leases, *, max_queued: int = MAX_QUEUED, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self.id = ""
        """A UUIDv7, new for each opening of the store. Every record contains the id of its writer."""
        self._name = name
        self._leases = leases
        self._max_queued = max_queued
        self._patience_seconds = patience_seconds
        self._queue: deque[Item] = deque()
        self._capacity = 0  # the maximum, or 0 when not open
        self._in_flight = 0  # number of items taken from the queue but not written yet
        self._wake = threading.Event()
        self._armed = False  # the thread will look into the queue without being woken
        self._urgent = False  # … and at once, since a caller waits
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._open_ids: set[str] = set()
        self._recovery = RecoveryState()
        self._was_cut_off = False  # the last transaction was rolled back by the server while this process was frozen
        self._expected_items = 0  # number of items of the last transaction, if several callers waited for it
        self._bad_count = 0  # number of buffered entries that could not become records since the last report

    def start(self, engine: Engine) -> None:
        """Start the thread, which writes through the engine's only connection."""
        self.id = Ids().new()
        self._armed = self._urgent = self._stopping = False
        self._wake.clear()
        self._thread = threading.Thread(target=self._run, args=(engine,), name="capset-writer", daemon=True)
        self._thread.start()
        self._capacity = self._max_queued
        atexit.register(self._at_exit)  # otherwise the buffered entries would be lost with the daemon thread

    async def stop(self) -> int:
        """Write everything pending, stop the thread, and return the number of lost entries."""
        self._halt()
        return await asyncio.to_thread(self._finish)

    def append(self, entry: Entry) -> None:
        """Accept an entry, to be written soon. Raises ``StoreError`` if too many are waiting."""
        if len(self._queue) + self._in_flight >= self._capacity:
            raise self._refusal()
        self._queue.append(entry)
        if not self._armed:
            self._armed = True
            self._wake.set()

    async def commit(self, entry: Entry) -> None:
        """Write an entry and return once it is durable. Raises ``StoreError`` if it cannot be written."""
        await self._submit(DurableEntry(entry))

    async def flush(self) -> None:
        """Return once everything accepted so far is durable. Raises ``StoreError`` if it cannot be written."""
        await self._submit(Barrier())

    async def write(self, function: Callable[[Connection], _T], act: Entry | None = None) -> _T:
        """Run a function in the writer's next transaction, on its thread, and return its result once that is durable.

        If the result is true, the record of the ``act`` is part of the transaction, so neither exists without the
        other.

        The function may run again if the transaction starts over, so it must change nothing but the database. An error
        in it undoes only its own changes. Errors of the database become ``StoreError``. While other processes write,
        the function is retried within ``PATIENCE_SECONDS``.
        """
        return await self._submit(QueueCall(function, time.monotonic() + self._patience_seconds, act))

    async def admit(self, claim: Claim, entry: Entry | None) -> None:
        """Count a call and write its intent in one transaction, retried. Raises ``AdmissionRefused``."""
        await self._submit(Admission(claim, entry, time.monotonic() + self._patience_seconds))

    async def _submit(self, item: DurableEntry | QueueCall | Admission | Barrier) -> Any:
        if not self._capacity:
            raise self._refusal()
        self._queue.append(item)
        if not self._urgent or len(self._queue) == self._expected_items:
            self._armed = self._urgent = True
            self._wake.set()
        return await item.waiter.future

    def _refusal(self) -> StoreError:
        if not self._capacity:
            return StoreError(f"the database {self._name!r} is not open")
        return StoreError(
            f"the audit log's queue is full: {counted(self._max_queued, 'record')} waiting to be written",
            hint="wait for flush(), or use commit(), which waits",
        )

    def _halt(self) -> None:
        """Accept nothing more, and make the thread stop once it has written everything pending."""
        self._capacity = 0
        self._stopping = self._urgent = True
        self._wake.set()

    def _finish(self) -> int:
        thread, self._thread = self._thread, None
        if thread is None:
            return 0
        thread.join()
        atexit.unregister(self._at_exit)
        remaining = Batch(self._name, self._queue)  # buffered entries, and what one transaction could not take
        closed_error = self._refusal()
        deliver_answers(remaining.answers_on_failure(closed_error, spared=()) + remaining.barrier_answers(closed_error))
        lost, self._bad_count = len(remaining.buffered) + len(remaining.bad_entries) + self._bad_count, 0
        self._queue.clear()
        self._open_ids.clear()
        self._recovery.end()
        return lost

    def _at_exit(self) -> None:
        self._halt()
        if lost := self._finish():
            _logger.error("lost %s that could not be written", counted(lost, "audit record"))
        self._leases.release()

    def _run(self, engine: Engine) -> None:
        pause: float | None = None
        while True:
            self._wake.wait(pause)
            self._wake.clear()
            if pause is None and not self._urgent:
                self._wake.wait(0.1)  # seconds, to collect entries
                self._wake.clear()
            self._gather()
            stopping = self._stopping
            # Before the queue is emptied, so that later items wake the thread again.
            self._armed = self._urgent = False
            queued = len(self._queue)
            self._in_flight = min(queued, MAX_BATCH)
            items = [self._queue.popleft() for _ in range(self._in_flight)]
            is_written = not items or self._write(engine, items, is_last=stopping)
            del items  # the thread may wait for long, and an item may have many megabytes
            # Items added since then have woken the thread already, and are collected first.
            if is_written and (queued > MAX_BATCH or (stopping and self._queue)):
                self._wake_now()
            elif stopping:
                return
            if is_written:
                pause = None
            else:
                pause = 0.05 if pause is None else min(2 * pause, 5.0)  # seconds; a waiting caller ends a pause
                self._armed = True  # until the pause is over, an append need not wake the thread

    def _gather(self) -> None:
        """Wait a little until the queue is as long as last time: one large transaction costs less than several.

        Stop after 0.5 ms without a new item, and after 3 ms in total.
        """
        queued, until = 0, time.monotonic() + 0.003
        while queued < len(self._queue) < self._expected_items and time.monotonic() < until and not self._stopping:
            queued = len(self._queue)
            self._wake.wait(0.0005)
            self._wake.clear()

    def _write(self, engine: Engine, items: list[Item], *, is_last: bool) -> bool:
        """Write a batch and answer its waiters; return whether it was written.

        If it was not, put back the items that need not fail yet: buffered entries, and items that may still wait for a
        lock, unless this is the last time.
        """
        batch = Batch(self._name, items)
        try:
            self._leases.prepare(self.id)
            if batch.has_intent:
                self._leases.take(self.id)
            work = TransactionWork(
                [admission.claim for admission in batch.admissions],
                [call.function for call in batch.calls],
                batch.rows,
                batch.admission_of_row,
                batch.acts,
            )
            result = transact(engine, self.id, work, self._open_ids, self._recovery)
        except Exception as error:
            # After a timeout, nothing was written, so everything can be retried.
            if is_idle_timeout(error) and not (self._was_cut_off or is_last):
                self._was_cut_off = True
                self._queue.extendleft(reversed(items))
                self._in_flight = 0
                self._wake_now()
                return False
            if not isinstance(error, (SQLAlchemyError, OSError, StoreError)):
                _logger.exception("the audit writer failed")
            failure = store_error(self._name, error)
            failure.__cause__ = error
            _logger.warning("%s; buffered records are kept", failure.message)
            retryable = batch.retryable(time.monotonic()) if is_locked(error) and not is_last else []
            answers = batch.answers_on_failure(failure, spared=retryable)
            self._queue.extendleft(reversed([*retryable, *batch.buffered]))
            if retryable:
                self._wake_now()
        else:
            failure, self._was_cut_off = None, False
            answers = batch.answers_on_commit(result)
        for bad in batch.bad_entries:
            _logger.error("%s", bad.message, exc_info=bad)
        self._bad_count += len(batch.bad_entries)
        barrier_answers = batch.barrier_answers(failure or self._bad_entries_error())
        if barrier_answers and failure is None:
            self._bad_count = 0
        self._in_flight = 0  # before the answers, so that their callers find room
        self._expected_items = len(items) if len(answers) >= 4 else 0  # several callers, so more may come at once
        deliver_answers(answers + barrier_answers)
        return failure is None

    def _wake_now(self) -> None:
        """Make the thread look into the queue again at once."""
        self._armed = self._urgent = True
        self._wake.set()

    def _bad_entries_error(self) -> StoreError | None:
        """Return the error for barriers if entries could not become records, although all others are written."""
        return (
            StoreError(f"{counted(self._bad_count, 'call')} left no audit record: none could be made")
            if self._bad_count
            else None
        )
