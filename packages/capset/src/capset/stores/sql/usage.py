"""The model usage of agents: a row for each part of a window, for each running step in one, and for each hour."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from random import random

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from capset.clock import iso
from capset.definitions.governance.usage import QUANTITIES, AgentUsage, usage_of
from capset.errors import StoreError
from capset.stores.base.usage import (
    COUNTED_DAYS,
    DAY_NS,
    HOUR,
    RETAINED_NS,
    ModelUser,
    StepClaim,
    UsageQuery,
    UsageTotals,
    UsageWindow,
    WindowUsage,
)
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import model_usage, usage_reservations, usages
from capset.stores.sql.writer.leases import Leases
from capset.stores.sql.writer.writer import Writer


class SqlUsage:
    """The parts of each window, summed on reading: at most 62 of them count. Steps belong to a writer."""

    def __init__(self, writer: Writer, reader: ReadConnections, leases: Leases) -> None:
        self._writer = writer
        self._reader = reader
        self._leases = leases
        self._unsettled: dict[str, tuple[StepClaim, AgentUsage, int]] = {}
        """The steps whose settlement is not known to have succeeded, by id."""

    async def read(self, windows: Sequence[UsageWindow], now: int) -> list[WindowUsage]:
        return await self._reader.read(lambda connection: _read(connection, windows, now))

    async def reserve(self, claim: StepClaim, now: int) -> list[WindowUsage]:
        def write(connection: Connection) -> list[WindowUsage]:
            # Writers take turns, so nothing is written between reading the sums and the insert.
            before = _read(connection, claim.windows, now)
            if claim.has_room(before):
                try:
                    self._leases.take(self._writer.id)  # otherwise other processes would consider this one dead
                except OSError as error:
                    raise StoreError(f"this process cannot show that it is alive: {error}") from None
                reservation = {"step": claim.step, "writer": self._writer.id, **claim.maximum.plain()}
                connection.execute(
                    insert(usage_reservations), [{"key": window.key, **reservation} for window in claim.windows]
                )
            return before

        return await self._writer.write(write)

    async def settle(self, claim: StepClaim, used: AgentUsage, now: int) -> list[WindowUsage]:
        self._unsettled[claim.step] = claim, used, now
        before = await self._writer.write(lambda connection: _settle(connection, claim, used, now))
        self._unsettled.pop(claim.step, None)
        return before

    async def count(self, user: ModelUser, used: AgentUsage, now: int) -> None:
        key = {**asdict(user), "org": user.org or "", "hour": iso(now)[:HOUR]}
        increments = {name: model_usage.c[name] + getattr(used, name) for name in QUANTITIES}

        def write(connection: Connection) -> None:
            if not connection.execute(update(model_usage).filter_by(**key).values(increments)).rowcount:
                connection.execute(insert(model_usage).values({**key, **used.plain()}))
                oldest = iso(now - COUNTED_DAYS * DAY_NS)[:HOUR]
                connection.execute(delete(model_usage).where(model_usage.c.hour < oldest))

        await self._writer.write(write)

    async def totals(self, query: UsageQuery) -> UsageTotals:
        conditions = [
            model_usage.c.org == (query.org or ""),
            model_usage.c.hour >= query.since,
            model_usage.c.hour < query.until,
        ]
        filters = {name: value for name in ("agent", "principal") if (value := getattr(query, name)) is not None}
        principal = model_usage.c.principal_kind + ":" + model_usage.c.principal

        def read(connection: Connection) -> UsageTotals:
            def sums(key: ColumnElement[str], *, top: int | None = None) -> tuple[tuple[str, AgentUsage], ...]:
                columns = [func.sum(model_usage.c[name]).label(name) for name in QUANTITIES]
                statement = select(key.label("key"), *columns).where(*conditions).filter_by(**filters).group_by("key")
                if top is None:
                    statement = statement.order_by("key")
                else:
                    most = (func.sum(model_usage.c.cost).desc(), func.sum(model_usage.c.tokens).desc(), "key")
                    statement = statement.order_by(*most).limit(top)
                rows = connection.execute(statement).mappings()
                return tuple((row["key"], usage_of({name: row[name] for name in QUANTITIES})) for row in rows)

            by_agent = sums(model_usage.c.agent, top=query.top)
            return UsageTotals(sums(model_usage.c.hour), by_agent, sums(principal, top=query.top))

        return await self._reader.read(read)

    async def retry_settlements(self) -> None:
        """Settle the steps whose settlement failed, or whose caller was cancelled."""
        for claim, used, now in [*self._unsettled.values()]:
            await self.settle(claim, used, now)


def writers_with_steps(connection: Connection) -> set[str]:
    """Return the writers that have unsettled steps."""
    return {*connection.execute(select(usage_reservations.c.writer).distinct()).scalars()}


def release_steps(connection: Connection, dead: Collection[str]) -> None:
    """Free the reservations of dead writers."""
    connection.execute(delete(usage_reservations).where(usage_reservations.c.writer.in_(dead)))


def delete_usage(connection: Connection, session: str) -> None:
    """Delete the usage and reservations in a session's windows."""
    for table in (usages, usage_reservations):
        condition = (table.c.key > f"{session}/") & (table.c.key < f"{session}0")  # the character after a slash
        connection.execute(delete(table).where(condition))


def _read(connection: Connection, windows: Sequence[UsageWindow], now: int) -> list[WindowUsage]:
    used = _sums(connection, usages, windows, usages.c.ends > now)
    reserved = _sums(connection, usage_reservations, windows)
    none = AgentUsage()
    return [WindowUsage(used.get(window.key, none), reserved.get(window.key, none)) for window in windows]


def _sums(
    connection: Connection, table: Table, windows: Sequence[UsageWindow], *conditions: ColumnElement[bool]
) -> dict[str, AgentUsage]:
    """Return the sums of a table's rows by window, without windows that have no rows."""
    sums = (func.sum(table.c[name]).label(name) for name in QUANTITIES)
    in_windows = table.c.key.in_([window.key for window in windows])
    rows = connection.execute(
        select(table.c.key, *sums).where(in_windows, *conditions).group_by(table.c.key)
    ).mappings()
    return {row["key"]: usage_of({name: row[name] for name in QUANTITIES}) for row in rows}


def _settle(connection: Connection, claim: StepClaim, used: AgentUsage, now: int) -> list[WindowUsage]:
    before = _read(connection, claim.windows, now)
    keys = [window.key for window in claim.windows]
    condition = usage_reservations.c.key.in_(keys) & (usage_reservations.c.step == claim.step)
    freed = {
        *connection.execute(delete(usage_reservations).where(condition).returning(usage_reservations.c.key)).scalars()
    }
    counted = claim.counted_usage(before, used)
    if counted != AgentUsage():
        for window in claim.windows:
            if window.key in freed:
                _add(connection, window, counted, now)
        if random() < 1 / 32:  # now and then  # noqa: S311 - not used for security
            connection.execute(delete(usages).where(usages.c.ends < now - RETAINED_NS))
    return before


def _add(connection: Connection, window: UsageWindow, amount: AgentUsage, now: int) -> None:
    began, ends = window.part(now)
    condition = (usages.c.key == window.key) & (usages.c.began == began)
    increments = {name: usages.c[name] + getattr(amount, name) for name in QUANTITIES}
    if not connection.execute(update(usages).where(condition).values(increments)).rowcount:
        # Without an end, the part counts as long as its session exists.
        part = {"key": window.key, "began": began, "ends": 2**63 - 1 if ends is None else ends}
        connection.execute(insert(usages).values({**part, **amount.plain()}))
