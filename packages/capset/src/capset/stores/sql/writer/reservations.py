"""Counting of calls in windows and budgets, in the writer's transactions, which never overlap (ADR 0029).

A transaction needs few statements for all its claims, regardless of their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import random
from typing import Any, Final

from sqlalchemy import Connection, delete, func, insert, select, tuple_, update

from capset.definitions.governance.approvals import ApprovalRow
from capset.stores.base.admissions import (
    ApprovalTaken,
    Claim,
    QuotaSpent,
    Refused,
    TurnHold,
    TurnTaken,
    Window,
    WindowFull,
)
from capset.stores.sql.schema.tables import approvals, reservations, session_turns, spendings

_AHEAD: Final = 64
"""How many calls of a window are read at once; up to as many more than its limit are retained."""
_TRACED: Final = 1_000
"""Number of calls whose traces a budget retains for their release, which soon follows the call."""
_RECENT: Final = 10_000
"""Number of a window's newest calls among which a released call is searched."""
_TRACE_NS: Final = 600 * 1_000_000_000
_MARGIN_NS: Final = 86_400 * 1_000_000_000
"""How long a call is retained after its window: setting back a clock that was ahead must not free capacity."""
_SWEEPS: Final = 1 / 32
"""Share of the counting transactions that remove expired calls."""
_SWEPT: Final = 500
"""The smallest limit on the calls that a sweep removes."""


@dataclass(slots=True)
class _Row:
    """One call in a window, or in the traces of a budget or of an approval."""

    number: int
    call: str
    at: int
    ends: int


@dataclass(slots=True)
class _Window:
    """The loaded part of one window: its newest call, and the times of some of its calls by number."""

    number: int
    newest: int
    times: dict[int, int | None] = field(default_factory=dict[int, "int | None"])
    new: list[_Row] = field(default_factory=list[_Row])
    kept: int = 0


class Counting:
    """The counting of one transaction: ``take`` decides each claim in turn, and ``write`` stores the result."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._windows: dict[str, _Window] = {}
        self._spent: dict[str, tuple[int, float]] = {}
        self._known: set[str] = set()
        """The budgets that have a row."""
        self._changed: set[str] = set()

    def take(self, claim: Claim) -> Refused | None:
        """Count a call and use its approval, or return the refusal."""
        now = claim.clock()
        if (refused := self._refusal(claim, now)) is not None:
            return refused
        approval = claim.approval
        if approval is not None and not _move_approval(self._connection, approval, "approved", "used"):
            return ApprovalTaken()
        for window in claim.windows:
            self._add(window.key, claim.call, now, window.length, window.requests)
        for quota in claim.quotas:
            calls, cost = self._used(quota.owner)
            self._spent[quota.owner] = calls + 1, cost + claim.cost
            self._changed.add(quota.owner)
        for key in claim.traces():
            self._add(key, claim.call, now, _TRACE_NS, _TRACED)
        return None

    def refusal(self, claim: Claim) -> Refused | None:
        """Return the reason why a call would be refused, or ``None``."""
        return self._refusal(claim, claim.clock())

    def _refusal(self, claim: Claim, now: int) -> Refused | None:
        if claim.hold is not None and not _is_held(self._connection, claim.hold):
            return TurnTaken()
        for quota in claim.quotas:
            calls, cost = self._used(quota.owner)
            if not quota.covers(calls, cost, claim.cost):
                return QuotaSpent(quota, calls, cost)
        longest: WindowFull | None = None
        for window in claim.windows:
            wait = self._wait(window, now)
            if wait is not None and (longest is None or wait > longest.wait):
                longest = WindowFull(window, wait)
        return longest

    def write(self) -> int:
        """Write the counted calls, and return the number of inserted rows."""
        rows = [
            {"key": key, "number": row.number, "call": row.call, "at": row.at, "ends": row.ends}
            for key, window in self._windows.items()
            for row in window.new
        ]
        if rows:
            self._connection.execute(insert(reservations), rows)
        for key, window in self._windows.items():
            before = window.number - len(window.new)
            if window.new and window.number > window.kept and window.number // _AHEAD != before // _AHEAD:
                old = (reservations.c.key == key) & (reservations.c.number <= window.number - window.kept)
                self._connection.execute(delete(reservations).where(old))
        for owner in sorted(self._changed):
            calls, cost = self._spent[owner]
            if owner in self._known:
                used = update(spendings).where(spendings.c.owner == owner).values(calls=calls, cost=cost)
            else:
                used = insert(spendings).values(owner=owner, calls=calls, cost=cost)
            self._connection.execute(used)
        return len(rows)

    def _wait(self, window: Window, at: int) -> int | None:
        """Return the nanoseconds until the window has room for another call; ``None`` if it has room now."""
        counted = self._window(window.key)
        if counted.number < window.requests:
            return None
        oldest = self._time(window.key, counted, counted.number - window.requests + 1)
        if oldest is None or oldest + window.length <= max(at, counted.newest):
            return None
        return oldest + window.length - at

    def _add(self, key: str, call: str, now: int, length: int, retained: int) -> None:
        counted = self._window(key)
        counted.number += 1
        counted.kept = retained
        counted.newest = counted.times[counted.number] = max(counted.newest, now)
        counted.new.append(_Row(counted.number, call, counted.newest, counted.newest + length))

    def _window(self, key: str) -> _Window:
        if (counted := self._windows.get(key)) is None:
            query = select(reservations.c.number, reservations.c.at).where(reservations.c.key == key)
            row = self._connection.execute(query.order_by(reservations.c.number.desc()).limit(1)).first()
            counted = self._windows[key] = _Window(0, 0) if row is None else _Window(row.number, row.at)
        return counted

    def _time(self, key: str, counted: _Window, number: int) -> int | None:
        if number not in counted.times:
            some = (reservations.c.key == key) & reservations.c.number.between(number, number + _AHEAD - 1)
            rows = self._connection.execute(select(reservations.c.number, reservations.c.at).where(some))
            read: dict[int, int | None] = dict.fromkeys(range(number, number + _AHEAD))
            counted.times = read | {row.number: row.at for row in rows} | {row.number: row.at for row in counted.new}
        return counted.times[number]

    def _used(self, owner: str) -> tuple[int, float]:
        if owner not in self._spent:
            query = select(spendings.c.calls, spendings.c.cost).where(spendings.c.owner == owner)
            row = self._connection.execute(query).first()
            if row is None:
                return 0, 0.0
            self._known.add(owner)
            self._spent[owner] = row.calls, row.cost
        return self._spent[owner]


def _is_held(connection: Connection, hold: TurnHold) -> bool:
    condition = (session_turns.c.session == hold.session) & (session_turns.c.turn == hold.turn)
    query = select(session_turns.c.turn).where(condition, session_turns.c.holder == hold.holder)
    return connection.execute(query).first() is not None


def _move_approval(connection: Connection, approval: ApprovalRow, before: str, after: str) -> bool:
    condition = (
        (approvals.c.org == (approval.org or "")) & (approvals.c.id == approval.id) & (approvals.c.status == before)
    )
    return bool(connection.execute(update(approvals).where(condition).values(status=after)).rowcount)


def admit_all(connection: Connection, claims: Sequence[Claim]) -> list[Refused | None]:
    """Count calls in order, and return the refusal of each, or ``None``."""
    counting = Counting(connection)
    refusals = [counting.take(claim) for claim in claims]
    row_count = counting.write()
    if claims and random() < _SWEEPS:  # noqa: S311 - not used for security
        # More than are added between two sweeps.
        _sweep(connection, claims[0].clock(), max(_SWEPT, round(2 * row_count / _SWEEPS)))
    return refusals


def count_calls(connection: Connection, window: Window, now: int) -> int:
    """Return the number of calls in a window, by binary search: its times never decrease."""
    condition = reservations.c.key == window.key
    query = select(reservations.c.number, reservations.c.at).where(condition)
    newest = connection.execute(query.order_by(reservations.c.number.desc()).limit(1)).first()
    if newest is None:
        return 0
    past = max(now, newest.at) - window.length
    before, upper = max(0, newest.number - window.requests), newest.number
    if newest.at <= past:
        return 0
    while upper - before > 1:
        middle = (before + upper) // 2
        at = connection.execute(select(reservations.c.at).where(condition, reservations.c.number == middle)).scalar()
        if at is None or at <= past:  # a missing call has expired
            before = middle
        else:
            upper = middle
    return newest.number - before


def spent_by(connection: Connection, owners: Sequence[str]) -> list[tuple[int, float]]:
    """Return the calls and the cost that each owner has used of its budget."""
    query = select(spendings).where(spendings.c.owner.in_(owners))
    spent = {row.owner: (row.calls, row.cost) for row in connection.execute(query)}
    return [spent.get(owner, (0, 0.0)) for owner in owners]


def release(connection: Connection, claim: Claim) -> None:
    """Undo the counting of a call and the use of its approval, as far as they happened."""
    for window in claim.windows:
        _forget(connection, window.key, claim.call)
    for quota, key in zip(claim.quotas, claim.traces(), strict=False):
        if _forget(connection, key, claim.call):
            less = {"calls": spendings.c.calls - 1, "cost": spendings.c.cost - claim.cost}
            connection.execute(update(spendings).where(spendings.c.owner == quota.owner).values(less))
    if claim.approval is not None and _forget(connection, f"approval {claim.approval.id}", claim.call):
        _move_approval(connection, claim.approval, "used", "approved")


def _forget(connection: Connection, key: str, call: str) -> bool:
    """Remove a call from a window, close the gap in the numbers, and return whether the call was in it."""
    condition = reservations.c.key == key
    newest = connection.execute(select(func.max(reservations.c.number)).where(condition)).scalar() or 0
    recent = condition & (reservations.c.number > newest - _RECENT)
    number = connection.execute(select(reservations.c.number).where(recent, reservations.c.call == call)).scalar()
    if number is None:
        return False
    later = connection.execute(
        select(reservations).where(condition, reservations.c.number > number).order_by(reservations.c.number)
    )
    rows: list[dict[str, Any]] = [{**row, "number": row["number"] - 1} for row in later.mappings()]
    connection.execute(delete(reservations).where(condition, reservations.c.number >= number))
    if rows:
        connection.execute(insert(reservations), rows)
    return True


def _sweep(connection: Connection, now: int, limit: int) -> None:
    """Remove some expired calls from all windows, since some windows are never used again."""
    columns = reservations.c.key, reservations.c.number
    old = select(*columns).where(reservations.c.ends < now - _MARGIN_NS).limit(limit)
    connection.execute(delete(reservations).where(tuple_(*columns).in_(old)))
