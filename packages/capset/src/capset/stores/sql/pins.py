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
        """Return the pins of one server or of all servers, sorted by server and tool."""
        statement = select(pins) if server is None else select(pins).where(pins.c.server == server)

        def read(connection: Connection) -> list[ToolPin]:
            tool_pins = [ToolPin(**row) for row in connection.execute(statement).mappings()]
            return sorted(tool_pins, key=lambda pin: (pin.server, pin.tool))  # databases sort text differently

        return await self._reader.read(read)

    async def change(
        self, server: str, add: Sequence[ToolPin], remove: Sequence[str] = (), *, act: Entry | None = None
    ) -> None:
        """Store a server's pins, replacing those of the same tools, and remove others, atomically."""

        def write(connection: Connection) -> bool:
            gone = [*remove, *(pin.tool for pin in add)]
            connection.execute(delete(pins).where(pins.c.server == server, pins.c.tool.in_(gone)))
            if add:
                connection.execute(insert(pins), [asdict(pin) | {"server": server} for pin in add])
            return True

        await self._writer.write(write, act)
