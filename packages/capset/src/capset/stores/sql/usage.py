"""The model usage of agents: a row for each part of a window, and one for each running step in a window."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import random
from typing import Final

from sqlalchemy import ColumnElement, Connection, Table, delete, func, insert, select, update

from capset.definitions.governance.usage import RESOURCES, AgentUsage, usage_of
from capset.errors import StoreError
from capset.stores.base.usage import RETAINED, StepClaim, UsageWindow, WindowUsage
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import usage_reservations, usages
from capset.stores.sql.writer.leases import Leases
from capset.stores.sql.writer.writer import Writer

FOREVER: Final = 2**63 - 1
"""The end of a part that counts as long as its session exists."""
_SWEEPS: Final = 1 / 32
"""Share of the transactions that remove expired parts."""


class SqlUsage:
    """The parts of each window, summed on reading: at most 62 of them count. Steps belong to a writer."""

    def __init__(self, writer: Writer, reader: ReadConnections, leases: Leases) -> None:
        self._writer = writer
        self._reader = reader
        self._leases = leases
        self._owed: dict[str, tuple[StepClaim, AgentUsage, int]] = {}
        """The steps whose settlement is not known to have succeeded, by id."""

    async def read(self, windows: Sequence[UsageWindow], now: int) -> list[WindowUsage]:
        """Return the usage and the reservations in each window at ``now``."""
        return await self._reader.read(lambda connection: _read(connection, windows, now))

    async def reserve(self, claim: StepClaim, now: int) -> list[WindowUsage]:
        """Reserve the most that a step may use, if all of its windows have room. Return their usage before."""

        def write(connection: Connection) -> list[WindowUsage]:
            # Writers take turns, so nothing is written between reading the sums and the insert.
            before = _read(connection, claim.windows, now)
            if claim.has_room(before):
                try:
                    self._leases.take(self._writer.id)  # otherwise other processes would consider this one dead
                except OSError as error:
                    raise StoreError(f"this process cannot show that it is alive: {error}") from None
                reservation = {"step": claim.step, "writer": self._writer.id, **claim.most.plain()}
                connection.execute(
                    insert(usage_reservations), [{"key": window.key, **reservation} for window in claim.windows]
                )
            return before

        return await self._writer.write(write)

    async def settle(self, claim: StepClaim, used: AgentUsage, now: int) -> list[WindowUsage]:
        """Replace a step's reservation with its actual usage. Return the usage in its windows before."""
        self._owed[claim.step] = claim, used, now
        before = await self._writer.write(lambda connection: _settle(connection, claim, used, now))
        self._owed.pop(claim.step, None)
        return before

    async def settle_owed(self) -> None:
        """Settle the steps whose settlement failed, or whose caller was cancelled."""
        for claim, used, now in [*self._owed.values()]:
            await self.settle(claim, used, now)


def stepping_writers(connection: Connection) -> set[str]:
    """Return the writers that have unsettled steps."""
    return {*connection.execute(select(usage_reservations.c.writer).distinct()).scalars()}


def free_steps(connection: Connection, gone: Collection[str]) -> None:
    """Free the reservations of dead writers."""
    connection.execute(delete(usage_reservations).where(usage_reservations.c.writer.in_(gone)))


def drop_usage(connection: Connection, session: str) -> None:
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
    sums = (func.sum(table.c[name]).label(name) for name in RESOURCES)
    in_windows = table.c.key.in_([window.key for window in windows])
    rows = connection.execute(
        select(table.c.key, *sums).where(in_windows, *conditions).group_by(table.c.key)
    ).mappings()
    return {row["key"]: usage_of({name: row[name] for name in RESOURCES}) for row in rows}


def _settle(connection: Connection, claim: StepClaim, used: AgentUsage, now: int) -> list[WindowUsage]:
    before = _read(connection, claim.windows, now)
    keys = [window.key for window in claim.windows]
    condition = usage_reservations.c.key.in_(keys) & (usage_reservations.c.step == claim.step)
    freed = {
        *connection.execute(delete(usage_reservations).where(condition).returning(usage_reservations.c.key)).scalars()
    }
    counted = claim.counted(before, used)
    if counted != AgentUsage():
        for window in claim.windows:
            if window.key in freed:
                _add(connection, window, counted, now)
        if random() < _SWEEPS:  # noqa: S311 - not used for security
            connection.execute(delete(usages).where(usages.c.ends < now - RETAINED))
    return before


def _add(connection: Connection, window: UsageWindow, more: AgentUsage, now: int) -> None:
    began, ends = window.part(now)
    condition = (usages.c.key == window.key) & (usages.c.began == began)
    plus = {name: usages.c[name] + getattr(more, name) for name in RESOURCES}
    if not connection.execute(update(usages).where(condition).values(plus)).rowcount:
        part = {"key": window.key, "began": began, "ends": FOREVER if ends is None else ends}
        connection.execute(insert(usages).values({**part, **more.plain()}))
