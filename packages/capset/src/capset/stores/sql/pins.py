"""The pins of external tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection, delete, insert, select

from capset.stores.base import Entry, ToolPin
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import pins
from capset.stores.sql.writer.writer import Writer


class SqlPins:
    """The pins, one row each."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def list(self, server: str | None = None) -> Sequence[ToolPin]:
        statement = select(pins) if server is None else select(pins).where(pins.c.server == server)
        tool_pins = await self._reader.read_all(statement, lambda row: ToolPin(**row))
        return sorted(tool_pins, key=lambda pin: (pin.server, pin.tool))  # databases sort text differently

    async def change(
        self, server: str, add: Sequence[ToolPin], remove: Sequence[str] = (), *, act: Entry | None = None
    ) -> None:
        def write(connection: Connection) -> bool:
            replaced = [*remove, *(pin.tool for pin in add)]
            connection.execute(delete(pins).where(pins.c.server == server, pins.c.tool.in_(replaced)))
            if add:
                connection.execute(insert(pins), [asdict(pin) | {"server": server} for pin in add])
            return True

        await self._writer.write(write, act)
