"""The usage of models by agents: a row for each part of a window."""

from __future__ import annotations

from collections.abc import Sequence
from random import random
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select, update

from capset.definitions.usage import RESOURCES, AgentUsage, usage_of
from capset.stores.base.usage import RETAINED, UsageWindow
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import usages
from capset.stores.sql.writer.writer import Writer

FOREVER: Final = 2**63 - 1
"""When a part ends that counts as long as its session is there."""
_SWEEPS: Final = 1 / 32
"""Share of the transactions that remove parts that count no more."""


class SqlUsage:
    """The parts of each window, summed when they are asked for: at most 62 that count."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def read(self, windows: Sequence[UsageWindow], now: int) -> list[AgentUsage]:
        """Return what was used in each of the windows until now."""
        return await self._reader.read(lambda connection: [_sum(connection, one, now) for one in windows])

    async def add(self, windows: Sequence[UsageWindow], more: AgentUsage, now: int) -> list[AgentUsage]:
        """Count more in each of the windows, durably and all at once, and return what was used in each."""

        def write(connection: Connection) -> list[AgentUsage]:
            # Writers take turns, so that nothing comes between the update and the insert.
            for window in windows:
                _add(connection, window, more, now)
            if random() < _SWEEPS:  # noqa: S311 - not used for security
                connection.execute(delete(usages).where(usages.c.ends < now - RETAINED))
            return [_sum(connection, one, now) for one in windows]

        return await self._writer.write(write)


def drop_usage(connection: Connection, session: str) -> None:
    """Remove the windows of a session."""
    own = (usages.c.key > f"{session}/") & (usages.c.key < f"{session}0")  # the character after a slash
    connection.execute(delete(usages).where(own))


def _add(connection: Connection, window: UsageWindow, more: AgentUsage, now: int) -> None:
    began, ends = window.part(now)
    own = (usages.c.key == window.key) & (usages.c.began == began)
    plus = {name: usages.c[name] + getattr(more, name) for name in RESOURCES}
    if not connection.execute(update(usages).where(own).values(plus)).rowcount:
        part = {"key": window.key, "began": began, "ends": FOREVER if ends is None else ends}
        connection.execute(insert(usages).values({**part, **more.plain()}))


def _sum(connection: Connection, window: UsageWindow, now: int) -> AgentUsage:
    sums = (func.sum(usages.c[name]).label(name) for name in RESOURCES)
    wanted = select(*sums).where(usages.c.key == window.key, usages.c.ends > now)
    found = connection.execute(wanted).mappings().one()
    return usage_of({name: found[name] or 0 for name in RESOURCES})
