"""The stored agents: one row each, and one for each of their capabilities."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from capset.errors import StoreError
from capset.stores.base import AgentPage, AgentQuery, AgentRow, CapabilityRow
from capset.stores.capabilityrows import capability_row, entry_of
from capset.stores.sql.reader import Reader
from capset.stores.sql.tables import agent_capabilities, agents
from capset.stores.sql.writer import Writer


class SqlAgents:
    """The agents of every org; an agent of another org is not there."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def create(self, row: AgentRow) -> None:
        """Keep a new agent. Raises ``StoreError`` if there is one of its id."""

        def write(connection: Connection) -> None:
            try:
                connection.execute(insert(agents).values(_values(row)))
            except IntegrityError as error:
                raise StoreError(f"there is an agent {row.id!r} already") from error
            _put_capabilities(connection, row)

        await self._writer.write(write)

    async def get(self, org: str | None, id: str) -> AgentRow | None:
        """Return an agent, or ``None``."""

        def read(connection: Connection) -> AgentRow | None:
            asked = select(agents).where(agents.c.id == id, agents.c.org == (org or ""))
            found = connection.execute(asked).mappings().all()
            return next(iter(_rows(connection, found)), None)

        return await self._reader.read(read)

    async def list(self, query: AgentQuery) -> AgentPage:
        """Return agents, newest first."""
        matching = [agents.c.org == (query.org or "")]
        if query.status is not None:
            matching.append(agents.c.status == query.status)
        if query.name is not None:
            matching.append(agents.c.name == query.name)
        wanted = select(agents).where(*matching).order_by(agents.c.id.desc()).limit(query.limit + 1)
        if query.before is not None:
            wanted = wanted.where(agents.c.id < query.before)

        def read(connection: Connection) -> AgentPage:
            total = connection.execute(select(func.count()).select_from(agents).where(*matching)).scalar_one()
            found = connection.execute(wanted).mappings().all()
            items = tuple(_rows(connection, found[: query.limit]))
            return AgentPage(items, total, items[-1].id if len(found) > query.limit else None)

        return await self._reader.read(read)

    async def version(self, org: str | None, id: str, version: int) -> AgentRow | None:
        """Return an agent as it was in one of its versions, or ``None``."""
        row = await self.get(org, id)
        return row if row is not None and row.version == version else None

    async def replace(self, row: AgentRow) -> bool:
        """Write the next version of an agent, and return whether the one before it was the last until now."""

        def write(connection: Connection) -> bool:
            last = (agents.c.id == row.id) & (agents.c.org == (row.org or "")) & (agents.c.version == row.version - 1)
            if not connection.execute(update(agents).where(last).values(_values(row))).rowcount:
                return False
            connection.execute(delete(agent_capabilities).where(agent_capabilities.c.agent_id == row.id))
            _put_capabilities(connection, row)
            return True

        return await self._writer.write(write)


def _values(row: AgentRow) -> Mapping[str, Any]:  # columns of several types
    values = asdict(row)
    del values["capabilities"]
    lists = {name: json.dumps(values[name]) for name in ("instructions", "tags")}
    context = None if row.static_context is None else json.dumps(row.static_context)
    return values | lists | {"org": row.org or "", "static_context": context}


def _put_capabilities(connection: Connection, row: AgentRow) -> None:
    values = [
        {"agent_id": row.id, "position": position, "capability_id": one.id, "entry": entry_of(one)}
        for position, one in enumerate(row.capabilities)
    ]
    if values:
        connection.execute(insert(agent_capabilities), values)


def _rows(connection: Connection, found: Iterable[RowMapping]) -> list[AgentRow]:
    rows = list(found)
    own = agent_capabilities.c.agent_id.in_([row["id"] for row in rows])
    order = (agent_capabilities.c.agent_id, agent_capabilities.c.position)
    listed = connection.execute(select(agent_capabilities).where(own).order_by(*order)).mappings()
    used = {
        agent: tuple(capability_row(one["capability_id"], one["entry"]) for one in group)
        for agent, group in groupby(listed, key=lambda one: one["agent_id"])
    }
    return [_row(row, used.get(row["id"], ())) for row in rows]


def _row(found: RowMapping, capabilities: tuple[CapabilityRow, ...]) -> AgentRow:
    values: dict[str, Any] = dict(found)
    values.update({name: tuple(json.loads(values[name])) for name in ("instructions", "tags")})
    values.update(org=values["org"] or None, capabilities=capabilities)
    if values["static_context"] is not None:
        values["static_context"] = json.loads(values["static_context"])
    return AgentRow(**values)
