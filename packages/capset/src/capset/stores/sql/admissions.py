"""Approval requests, which equal calls share and which are limited, and admissions with their intents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection, RowMapping, case, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from capset.definitions.governance.approvals import ApprovalRow, ApprovalStatus, CallKey
from capset.stores.base import STANDING, SUSPENDED, ApprovalQuery, DeliveryRow, Entry, Page, PendingSummary
from capset.stores.base.admissions import APPROVAL_FILTERS, AdmissionRefused, ArgumentsFull, Claim, Window
from capset.stores.pages import filters_of
from capset.stores.rows import id_taken_error
from capset.stores.sql.deliveries import queue_deliveries
from capset.stores.sql.reader import ReadConnections, byte_length
from capset.stores.sql.schema.tables import CAN_EXPIRE, IS_PENDING, approvals, session_turns
from capset.stores.sql.writer.reservations import Counting, budget_usage, count_calls, release
from capset.stores.sql.writer.writer import Writer

_EQUAL = ("session", "digest", "principal", "tool", "tool_hash", "agent")


class SqlApprovals:
    """The requests, one row each."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def open(
        self,
        row: ApprovalRow,
        *,
        max_pending: int,
        max_bytes: int | None = None,
        by_code: bool = False,
        deliveries: Sequence[DeliveryRow] = (),
    ) -> ApprovalRow | None:
        equal = row.call_key_with_code if by_code else row.call_key
        of_org = (
            approvals.c.org == (row.org or ""),
            approvals.c.status == "pending",
            approvals.c.expires_at > row.created_at,
        )
        pending = select(func.count()).where(
            *of_org,
            approvals.c.principal == row.principal,
            approvals.c.on_behalf_of.is_not_distinct_from(row.on_behalf_of),
        )

        def write(connection: Connection) -> ApprovalRow | None:
            # Write transactions are serialized, so that nothing changes between the query and the insert.
            if (existing := _standing(connection, equal, row.created_at)) is not None:
                return existing
            if connection.execute(pending).scalar_one() >= max_pending:
                return None
            if max_bytes is not None:
                unmasked = func.coalesce(byte_length(connection, approvals.c.unmasked), 0)
                pending_size = select(func.sum(byte_length(connection, approvals.c.arguments) + unmasked)).where(
                    *of_org
                )
                if (connection.execute(pending_size).scalar() or 0) + row.argument_bytes > max_bytes:
                    raise ArgumentsFull
            try:
                connection.execute(insert(approvals).values(_values(row)))
            except IntegrityError as error:
                raise id_taken_error("a request", row.id) from error
            queue_deliveries(connection, deliveries)
            return row

        return await self._writer.write(write)

    async def standing(self, call: CallKey, now: str) -> ApprovalRow | None:
        return await self._reader.read(lambda connection: _standing(connection, call, now))

    async def get(self, org: str | None, id: str) -> ApprovalRow | None:
        statement = select(approvals).where(approvals.c.org == (org or ""), approvals.c.id == id)
        return await self._reader.read_one(statement, _row)

    async def list(self, query: ApprovalQuery) -> Page[ApprovalRow]:
        statement = select(approvals).where(approvals.c.org == (query.org or ""))
        statement = statement.filter_by(**filters_of(query, APPROVAL_FILTERS))
        return await self._reader.read_page(statement, query, _row, oldest_first=query.oldest_first)

    async def move(
        self,
        row: ApprovalRow,
        expected: ApprovalStatus,
        *,
        previous: ApprovalRow | None = None,
        act: Entry | None = None,
        deliveries: Sequence[DeliveryRow] = (),
    ) -> bool:
        condition = (approvals.c.org == (row.org or "")) & (approvals.c.id == row.id) & (approvals.c.status == expected)
        if previous is not None:
            condition &= approvals.c.approvals.is_not_distinct_from(previous.approvals)
            condition &= approvals.c.escalates_at.is_not_distinct_from(previous.escalates_at)
        replacement = update(approvals).where(condition).values(_values(row))
        waiting = (session_turns.c.session == row.session) & (session_turns.c.holder == SUSPENDED)
        due = update(session_turns).where(waiting).values(until=row.decided_at or row.created_at)

        def write(connection: Connection) -> bool:
            if not connection.execute(replacement).rowcount:
                return False
            if expected == "pending" != row.status:  # the turn that waits for it may continue
                connection.execute(due)
            queue_deliveries(connection, deliveries)
            return True

        return await self._writer.write(write, act)

    async def overdue(self, now: str, limit: int = 100) -> list[ApprovalRow]:
        statement = select(approvals).where(CAN_EXPIRE, approvals.c.expires_at <= now)
        statement = statement.order_by(approvals.c.expires_at, approvals.c.id).limit(limit)
        return await self._reader.read_all(statement, _row)

    async def escalating(self, now: str, limit: int = 100) -> list[ApprovalRow]:
        statement = select(approvals).where(IS_PENDING, approvals.c.escalates_at <= now)
        statement = statement.order_by(approvals.c.escalates_at, approvals.c.id).limit(limit)
        return await self._reader.read_all(statement, _row)

    async def summary(self, org: str | None, times: tuple[str, ...]) -> PendingSummary:
        created_at = approvals.c.created_at
        counts = [func.count(case((created_at >= time, 1))) for time in times]
        statement = select(func.count(), func.min(created_at), *counts).where(
            IS_PENDING, approvals.c.org == (org or "")
        )

        def read(connection: Connection) -> PendingSummary:
            row = tuple(connection.execute(statement).one())
            return PendingSummary(row[0], row[1], row[2:])

        return await self._reader.read(read)


def _standing(connection: Connection, call: CallKey, now: str) -> ApprovalRow | None:
    statement = select(approvals).where(
        approvals.c.org == (call.org or ""),
        *(approvals.c[name] == getattr(call, name) for name in _EQUAL),
        approvals.c.on_behalf_of.is_not_distinct_from(call.on_behalf_of),
        approvals.c.needs.is_not_distinct_from(call.needs),
        approvals.c.status.in_(STANDING),
        approvals.c.expires_at > now,
    )
    if call.code_hash is not None:
        statement = statement.where(func.coalesce(approvals.c.code_hash, "") == call.code_hash)
    row = connection.execute(statement.order_by(approvals.c.id.desc()).limit(1)).mappings().first()
    return None if row is None else _row(row)


def _values(row: ApprovalRow) -> Mapping[str, Any]:  # columns of text, some of them null
    return asdict(row) | {"org": row.org or ""}


def _row(mapping: RowMapping) -> ApprovalRow:
    row = ApprovalRow(**mapping)
    return replace(row, org=row.org or None)


class SqlAdmissions:
    """The counted calls, one row each, numbered within their window, and the amounts used of each budget."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def check(self, claim: Claim) -> AdmissionRefused | None:
        return await self._reader.read(lambda connection: Counting(connection).refusal(claim, claim.clock()))

    async def counts(self, windows: Sequence[Window], now: int) -> list[int]:
        return await self._reader.read(lambda connection: [count_calls(connection, window, now) for window in windows])

    async def spent(self, owners: Sequence[str]) -> list[tuple[int, float]]:
        return await self._reader.read(lambda connection: budget_usage(connection, owners))

    async def admit(self, claim: Claim, intent: Entry | None) -> None:
        await self._writer.admit(claim, intent)

    async def release(self, claim: Claim) -> None:
        await self._writer.write(lambda connection: release(connection, claim))
