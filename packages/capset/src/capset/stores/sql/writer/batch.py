"""The items of the writer's queue, and batches of them: write functions, entries as rows, and the waiting callers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from capset.errors import StoreError
from capset.stores.audit_rules import BadEntry, Row, columns_of
from capset.stores.base import Claim, Entry
from capset.stores.sql.problems import copied_error, store_error
from capset.stores.sql.writer.transaction import TransactionResult

Loop = asyncio.AbstractEventLoop


@dataclass(frozen=True, slots=True, eq=False)
class Waiter:
    """A waiting task on an event loop. The type of its answer depends on the item that it waits for."""

    loop: Loop = field(default_factory=asyncio.get_running_loop)
    future: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


@dataclass(frozen=True, slots=True, eq=False)
class DurableEntry:
    """An entry whose caller waits until it is durable."""

    entry: Entry
    waiter: Waiter = field(default_factory=Waiter)


@dataclass(frozen=True, slots=True, eq=False)
class QueueCall:
    """A write function whose caller waits for its result.

    It may wait for a lock until ``until``, in ``time.monotonic()`` seconds. Its transaction also records ``act``.
    """

    function: Callable[[Connection], Any]
    until: float
    act: Entry | None = None
    waiter: Waiter = field(default_factory=Waiter)


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """A call to be counted, with its intent if it has one. It may wait for a lock as a ``QueueCall`` does."""

    claim: Claim
    entry: Entry | None
    until: float
    waiter: Waiter = field(default_factory=Waiter)


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """A caller that waits until all earlier items are durable."""

    waiter: Waiter = field(default_factory=Waiter)


@dataclass(frozen=True, slots=True, eq=False)
class QueueAnswer:
    """The answer to one waiter: a value, or an error to raise there."""

    waiter: Waiter
    value: Any = None
    error: Exception | None = None


def deliver_answers(answers: Iterable[QueueAnswer]) -> None:
    """Deliver answers, from any thread: one wake-up per event loop, however many waiters it has."""
    loops: dict[Loop, list[QueueAnswer]] = {}
    for answer in answers:
        loops.setdefault(answer.waiter.loop, []).append(answer)
    for loop, for_loop in loops.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, and so are its waiters
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


Item = Entry | DurableEntry | QueueCall | Admission | Barrier


class Batch:
    """Items by kind, each in the order of the queue. ``name`` is the database's, for error messages.

    ``acts`` maps the index of a call to the row of its act. ``rows`` has one row for each item in ``_row_items``, and
    ``admission_of_row`` maps the index of a row to the index of the admission that it depends on. Items with an entry
    that cannot become a row are in ``_refused``, with the reason.
    """

    def __init__(self, name: str, items: Iterable[Item]) -> None:
        self._name = name
        self.calls: list[QueueCall] = []
        self.acts: dict[int, Row] = {}
        self.admissions: list[Admission] = []
        self.rows: list[Row] = []
        self.admission_of_row: dict[int, int] = {}
        self._row_items: list[Entry | DurableEntry | Admission] = []
        self._barriers: list[Barrier] = []
        self._refused: list[tuple[Entry | DurableEntry | Admission | QueueCall, BadEntry]] = []
        for item in items:
            if isinstance(item, QueueCall):
                self._add_call(item)
            elif isinstance(item, Barrier):
                self._barriers.append(item)
            else:
                self._add_entry(item)

    def _add_call(self, call: QueueCall) -> None:
        if call.act is not None:
            try:
                self.acts[len(self.calls)] = columns_of(call.act)
            except BadEntry as bad:
                self._refused.append((call, bad))
                return
        self.calls.append(call)

    def _add_entry(self, item: Entry | DurableEntry | Admission) -> None:
        entry = item.entry if isinstance(item, DurableEntry | Admission) else item
        if entry is not None:
            try:
                row = columns_of(entry)
            except BadEntry as bad:
                self._refused.append((item, bad))
                return
            if isinstance(item, Admission):
                self.admission_of_row[len(self.rows)] = len(self.admissions)
            self.rows.append(row)
            self._row_items.append(item)
        if isinstance(item, Admission):
            self.admissions.append(item)

    @property
    def has_intent(self) -> bool:
        """Whether any row is an intent."""
        return any(row["phase"] == "intent" for row in self.rows)

    @property
    def buffered(self) -> list[Entry]:
        """The entries without a waiter that can become rows."""
        return [item for item in self._row_items if not isinstance(item, DurableEntry | Admission)]

    def retryable(self, now: float) -> list[QueueCall | Admission]:
        """Return the items that may still wait for a lock; ``now`` is in ``time.monotonic()`` seconds."""
        return [item for item in (*self.admissions, *self.calls) if item.until > now]

    @property
    def bad_entries(self) -> list[BadEntry]:
        """The errors of entries without a waiter that cannot become records."""
        return [bad for item, bad in self._refused if not isinstance(item, DurableEntry | Admission | QueueCall)]

    def answers_on_commit(self, result: TransactionResult) -> list[QueueAnswer]:
        """Return the answers to all items except barriers after a commit."""
        answers = [
            QueueAnswer(item.waiter, error=admission_error)
            for item, admission_error in zip(self.admissions, result.admission_errors, strict=True)
        ]
        for call, (value, error) in zip(self.calls, result.results, strict=True):
            failure = store_error(self._name, error) if isinstance(error, DBAPIError) else error
            answers.append(QueueAnswer(call.waiter, value, failure))
        for item, bad in zip(self._row_items, result.refused, strict=True):
            if isinstance(item, Admission):
                continue  # already answered
            if bad:
                self._refused.append((item, bad))
            elif isinstance(item, DurableEntry):
                answers.append(QueueAnswer(item.waiter))
        return answers + self._refusals()

    def answers_on_failure(self, error: StoreError, *, spared: Collection[QueueCall | Admission]) -> list[QueueAnswer]:
        """Return the answers to all items except barriers and ``spared`` ones after a failed transaction."""
        requests = [item for item in (*self.calls, *self.admissions) if item not in spared]
        durable = [item for item in self._row_items if isinstance(item, DurableEntry)]
        failures = [QueueAnswer(item.waiter, error=copied_error(error)) for item in (*requests, *durable)]
        return failures + self._refusals()

    def barrier_answers(self, error: StoreError | None) -> list[QueueAnswer]:
        """Return the answers to the barriers."""
        return [QueueAnswer(barrier.waiter, error=error and copied_error(error)) for barrier in self._barriers]

    def _refusals(self) -> list[QueueAnswer]:
        return [
            QueueAnswer(item.waiter, error=bad)
            for item, bad in self._refused
            if isinstance(item, DurableEntry | Admission | QueueCall)
        ]
