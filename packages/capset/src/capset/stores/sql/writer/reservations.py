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
    AdmissionRefused,
    ApprovalTaken,
    Claim,
    QuotaExhausted,
    TurnHold,
    TurnTaken,
    Window,
    WindowFull,
)
from capset.stores.sql.schema.tables import approvals, reservations, session_turns, spendings

_READ_AHEAD: Final = 64
"""How many calls of a window are read at once; up to as many more than its limit are retained."""


@dataclass(slots=True)
class _Window:
    """The loaded part of one window: its newest call, and the times of some of its calls by number."""

    number: int
    newest: int
    times: dict[int, int | None] = field(default_factory=dict[int, "int | None"])
    new: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])  # rows of the table
    retained: int = 0


class Counting:
    """The counting of one transaction: ``take`` decides each claim in turn, and ``write`` stores the result."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._windows: dict[str, _Window] = {}
        self._budgets: dict[str, tuple[int, float]] = {}
        self._stored_budgets: set[str] = set()
        """The budgets that have a row."""
        self._changed_budgets: set[str] = set()

    def take(self, claim: Claim) -> AdmissionRefused | None:
        """Count a call and use its approval, or return the refusal."""
        now = claim.clock()
        if (refused := self.refusal(claim, now)) is not None:
            return refused
        approval = claim.approval
        if approval is not None and not _move_approval(self._connection, approval, "approved", "used"):
            return ApprovalTaken()
        for window in claim.windows:
            self._add(window.key, claim.call, now, window.length, window.requests)
        for quota in claim.quotas:
            calls, cost = self._read_budget(quota.owner)
            self._budgets[quota.owner] = calls + 1, cost + claim.cost
            self._changed_budgets.add(quota.owner)
        for key in claim.marker_keys():
            # A release soon follows its call: the markers of ten minutes, and of 1,000 calls, are enough.
            self._add(key, claim.call, now, 600 * 1_000_000_000, 1_000)
        return None

    def refusal(self, claim: Claim, now: int) -> AdmissionRefused | None:
        """Return the reason why a call would be refused, or ``None``."""
        if claim.hold is not None and not _is_held(self._connection, claim.hold):
            return TurnTaken()
        for quota in claim.quotas:
            calls, cost = self._read_budget(quota.owner)
            if not quota.covers(calls, cost, claim.cost):
                return QuotaExhausted(quota, calls, cost)
        longest: WindowFull | None = None
        for window in claim.windows:
            wait = self._wait(window, now)
            if wait is not None and (longest is None or wait > longest.wait):
                longest = WindowFull(window, wait)
        return longest

    def write(self) -> int:
        """Write the counted calls, and return the number of inserted rows."""
        rows = [row for window in self._windows.values() for row in window.new]
        if rows:
            self._connection.execute(insert(reservations), rows)
        for key, window in self._windows.items():
            before = window.number - len(window.new)
            if window.new and window.number > window.retained and window.number // _READ_AHEAD != before // _READ_AHEAD:
                old = (reservations.c.key == key) & (reservations.c.number <= window.number - window.retained)
                self._connection.execute(delete(reservations).where(old))
        for owner in sorted(self._changed_budgets):
            calls, cost = self._budgets[owner]
            if owner in self._stored_budgets:
                used = update(spendings).where(spendings.c.owner == owner).values(calls=calls, cost=cost)
            else:
                used = insert(spendings).values(owner=owner, calls=calls, cost=cost)
            self._connection.execute(used)
        return len(rows)

    def _wait(self, window: Window, at: int) -> int | None:
        """Return the nanoseconds until the window has room for another call; ``None`` if it has room now."""
        loaded = self._load_window(window.key)
        if loaded.number < window.requests:
            return None
        oldest = self._time_of(window.key, loaded, loaded.number - window.requests + 1)
        if oldest is None or oldest + window.length <= max(at, loaded.newest):
            return None
        return oldest + window.length - at

    def _add(self, key: str, call: str, now: int, length: int, retained: int) -> None:
        loaded = self._load_window(key)
        loaded.number += 1
        loaded.retained = retained
        at = loaded.newest = loaded.times[loaded.number] = max(loaded.newest, now)
        loaded.new.append({"key": key, "number": loaded.number, "call": call, "at": at, "ends": at + length})

    def _load_window(self, key: str) -> _Window:
        if (loaded := self._windows.get(key)) is None:
            query = select(reservations.c.number, reservations.c.at).where(reservations.c.key == key)
            row = self._connection.execute(query.order_by(reservations.c.number.desc()).limit(1)).first()
            loaded = self._windows[key] = _Window(0, 0) if row is None else _Window(row.number, row.at)
        return loaded

    def _time_of(self, key: str, loaded: _Window, number: int) -> int | None:
        if number not in loaded.times:
            condition = (reservations.c.key == key) & reservations.c.number.between(number, number + _READ_AHEAD - 1)
            rows = self._connection.execute(select(reservations.c.number, reservations.c.at).where(condition))
            read: dict[int, int | None] = dict.fromkeys(range(number, number + _READ_AHEAD))
            new = {row["number"]: row["at"] for row in loaded.new}
            loaded.times = read | {row.number: row.at for row in rows} | new
        return loaded.times[number]

    def _read_budget(self, owner: str) -> tuple[int, float]:
        if owner not in self._budgets:
            query = select(spendings.c.calls, spendings.c.cost).where(spendings.c.owner == owner)
            row = self._connection.execute(query).first()
            if row is None:
                return 0, 0.0
            self._stored_budgets.add(owner)
            self._budgets[owner] = row.calls, row.cost
        return self._budgets[owner]


def _is_held(connection: Connection, hold: TurnHold) -> bool:
    condition = (session_turns.c.session == hold.session) & (session_turns.c.turn == hold.turn)
    query = select(session_turns.c.turn).where(condition, session_turns.c.holder == hold.holder)
    return connection.execute(query).first() is not None


def _move_approval(connection: Connection, approval: ApprovalRow, before: str, after: str) -> bool:
    condition = (
        (approvals.c.org == (approval.org or "")) & (approvals.c.id == approval.id) & (approvals.c.status == before)
    )
    return bool(connection.execute(update(approvals).where(condition).values(status=after)).rowcount)


def admit_all(connection: Connection, claims: Sequence[Claim]) -> list[AdmissionRefused | None]:
    """Count calls in order, and return the refusal of each, or ``None``."""
    counting = Counting(connection)
    refusals = [counting.take(claim) for claim in claims]
    row_count = counting.write()
    if claims and random() < 1 / 32:  # noqa: S311 - not used for security
        # Removes twice as many as are added between two sweeps.
        _sweep(connection, claims[0].clock(), max(500, 2 * 32 * row_count))
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


def budget_usage(connection: Connection, owners: Sequence[str]) -> list[tuple[int, float]]:
    """Return the calls and the cost that each owner has used of its budget."""
    query = select(spendings).where(spendings.c.owner.in_(owners))
    spent = {row.owner: (row.calls, row.cost) for row in connection.execute(query)}
    return [spent.get(owner, (0, 0.0)) for owner in owners]


def release(connection: Connection, claim: Claim) -> None:
    """Undo the counting of a call and the use of its approval, as far as they happened."""
    for window in claim.windows:
        _remove_call(connection, window.key, claim.call)
    for quota, key in zip(claim.quotas, claim.marker_keys(), strict=False):
        if _remove_call(connection, key, claim.call):
            decrements = {"calls": spendings.c.calls - 1, "cost": spendings.c.cost - claim.cost}
            connection.execute(update(spendings).where(spendings.c.owner == quota.owner).values(decrements))
    if claim.approval is not None and _remove_call(connection, f"approval {claim.approval.id}", claim.call):
        _move_approval(connection, claim.approval, "used", "approved")


def _remove_call(connection: Connection, key: str, call: str) -> bool:
    """Remove a call from a window, close the gap in the numbers, and return whether the call was in it."""
    condition = reservations.c.key == key
    newest = connection.execute(select(func.max(reservations.c.number)).where(condition)).scalar() or 0
    recent = condition & (reservations.c.number > newest - 10_000)  # a release soon follows its call
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
    """Remove some expired calls from all windows, since some windows are never used again.

    A call is retained for a day after its window: setting back a clock that was ahead must not free capacity.
    """
    day = 86_400 * 1_000_000_000
    columns = reservations.c.key, reservations.c.number
    old = select(*columns).where(reservations.c.ends < now - day).limit(limit)
    connection.execute(delete(reservations).where(tuple_(*columns).in_(old)))
