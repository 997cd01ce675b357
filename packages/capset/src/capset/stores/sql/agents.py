"""The stored agents: one row per agent, per capability of an agent, and per version of an agent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, delete, exists, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from capset.stores.base import (
    AGENT_FIELDS,
    AgentPage,
    AgentQuery,
    AgentRow,
    CapabilityRow,
    Entry,
    Page,
    VersionQuery,
)
from capset.stores.pages import count_fitting, size_of
from capset.stores.rows import capability_row, entry_of, id_taken_error, version_row, version_text
from capset.stores.sql.reader import ReadConnections, contains, read_rows
from capset.stores.sql.schema.tables import agent_capabilities, agent_versions, agents
from capset.stores.sql.writer.writer import Writer

_JSON_FIELDS: Final = [field.name for field in AGENT_FIELDS if field.kind in ("texts", "object")]
"""The fields whose columns hold JSON text; capabilities have a table of their own."""
_HAS_SERVERS: Final = agents.c.mcp_servers.is_not(None) & (agents.c.mcp_servers != "{}")
_TEXT_LISTS: Final = [field.name for field in AGENT_FIELDS if field.kind == "texts"]


class SqlAgents:
    """The agents of all orgs. Each method sees only the agents of the given org."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def create(self, row: AgentRow, *, act: Entry | None = None) -> None:
        def write(connection: Connection) -> bool:
            try:
                connection.execute(insert(agents).values(_values(row)))
            except IntegrityError as error:
                raise id_taken_error("an agent", row.id) from error
            _put_capabilities(connection, row)
            _put_version(connection, row)
            return True

        await self._writer.write(write, act)

    async def get(self, org: str | None, id: str) -> AgentRow | None:
        return await self._reader.read(lambda connection: _current(connection, org, id))

    async def list(self, query: AgentQuery) -> AgentPage:
        matching = [agents.c.org == (query.org or "")]
        if query.status is not None:
            # Few agents share a name. With the plain column, SQLite could read all agents with the status instead.
            is_any_name = query.name is None and query.text is None
            status = agents.c.status if is_any_name else agents.c.status.concat("")
            matching.append(status == query.status)
        if query.name is not None:
            matching.append(agents.c.name == query.name)
        if query.text is not None:
            matching.append(contains(agents.c.name, query.text))
        if query.capabilities:
            of_agent = agent_capabilities.c.agent_id == agents.c.id
            matching.append(exists().where(of_agent, agent_capabilities.c.capability_id.in_(query.capabilities)))
        statement = select(agents).where(*matching).order_by(agents.c.id.desc())
        if query.before is not None:
            statement = statement.where(agents.c.id < query.before)

        def read(connection: Connection) -> AgentPage:
            page = statement
            if query.has_servers or query.text is not None:  # no index finds them, so scan the rows once, not twice
                servers = (_HAS_SERVERS,) if query.has_servers else ()
                ids = connection.execute(select(agents.c.id).where(*matching, *servers)).scalars().all()
                total = len(ids)
                older = sorted(agent_id for agent_id in ids if query.before is None or agent_id < query.before)
                page = statement.where(agents.c.id.in_(older[-query.limit - 1 :]))
            else:
                total = connection.execute(select(func.count()).select_from(agents).where(*matching)).scalar_one()
            rows, has_more = read_rows(connection, page, query.limit, query.max_bytes)
            fitting = count_fitting(_sizes(connection, rows), query.max_bytes)
            items = tuple(agent_rows(connection, rows[:fitting]))
            return AgentPage(items, items[-1].id if has_more or fitting < len(rows) else None, total)

        return await self._reader.read(read)

    async def replace(self, row: AgentRow, *, act: Entry | None = None) -> bool:
        def write(connection: Connection) -> bool:
            previous = (
                (agents.c.id == row.id) & (agents.c.org == (row.org or "")) & (agents.c.version == row.version - 1)
            )
            if not connection.execute(update(agents).where(previous).values(_values(row))).rowcount:
                return False
            connection.execute(delete(agent_capabilities).where(agent_capabilities.c.agent_id == row.id))
            _put_capabilities(connection, row)
            _put_version(connection, row)
            return True

        return await self._writer.write(write, act)

    async def version(self, org: str | None, id: str, version: int) -> AgentRow | None:
        def read(connection: Connection) -> AgentRow | None:
            current = _current(connection, org, id)
            if current is None or current.version == version:
                return current
            if version > current.version:  # it may be too large for the database's integers
                return None
            statement = select(agent_versions).filter_by(agent_id=id, version=version)
            row = connection.execute(statement).mappings().first()
            return None if row is None else agent_version(current, row)

        return await self._reader.read(read)

    async def versions(self, query: VersionQuery) -> Page[AgentRow, int]:
        def read(connection: Connection) -> Page[AgentRow, int]:
            current = _current(connection, query.org, query.agent_id)
            if current is None:
                return Page((), None)
            is_first = query.before is None or current.version < query.before
            below = current.version if is_first else query.before
            statement = (
                select(agent_versions)
                .where(agent_versions.c.agent_id == query.agent_id, agent_versions.c.version < below)
                .order_by(agent_versions.c.version.desc())
            )
            newest = [current] if is_first else []
            rows, has_more = read_rows(connection, statement, query.limit - len(newest), query.max_bytes)
            items = (*newest, *[agent_version(current, row) for row in rows])
            return Page(items, items[-1].version if has_more else None)

        return await self._reader.read(read)

    async def by_hash(self, org: str | None, static_hash: str) -> AgentRow | None:
        order = (agent_versions.c.agent_id.desc(), agent_versions.c.version.desc())
        statement = select(agent_versions).filter_by(org=org or "", static_hash=static_hash).order_by(*order).limit(1)

        def read(connection: Connection) -> AgentRow | None:
            row = connection.execute(statement).mappings().first()
            current = None if row is None else _current(connection, org, row["agent_id"])
            return None if row is None or current is None else agent_version(current, row)

        return await self._reader.read(read)


def _current(connection: Connection, org: str | None, id: str) -> AgentRow | None:
    statement = select(agents).where(agents.c.id == id, agents.c.org == (org or ""))
    return next(iter(agent_rows(connection, connection.execute(statement).mappings().all())), None)


def _put_version(connection: Connection, row: AgentRow) -> None:
    values = {
        "agent_id": row.id,
        "version": row.version,
        "org": row.org or "",
        "static_hash": row.static_hash,
        "definition": version_text(row),
        "author": row.author,
        "created_at": row.updated_at,
    }
    connection.execute(insert(agent_versions).values(values))


def agent_version(current: AgentRow, mapping: RowMapping) -> AgentRow:
    """Return the agent as of a row of the table of versions. ``current`` is the agent's current row."""
    return version_row(
        current,
        mapping["definition"],
        version=mapping["version"],
        static_hash=mapping["static_hash"],
        author=mapping["author"],
        written_at=mapping["created_at"],
    )


def _values(row: AgentRow) -> Mapping[str, Any]:  # columns of several types
    values = asdict(row)
    del values["capabilities"]
    texts = {name: None if values[name] is None else json.dumps(values[name]) for name in _JSON_FIELDS}
    return values | texts | {"org": row.org or ""}


def _put_capabilities(connection: Connection, row: AgentRow) -> None:
    values = [
        {"agent_id": row.id, "position": position, "capability_id": capability.id, "entry": entry_of(capability)}
        for position, capability in enumerate(row.capabilities)
    ]
    if values:
        connection.execute(insert(agent_capabilities), values)


def agent_rows(connection: Connection, mappings: Iterable[RowMapping]) -> list[AgentRow]:
    """Convert rows of the table of agents to agents, with their capabilities."""
    rows = list(mappings)
    of_agents = agent_capabilities.c.agent_id.in_([row["id"] for row in rows])
    order = (agent_capabilities.c.agent_id, agent_capabilities.c.position)
    entries = connection.execute(select(agent_capabilities).where(of_agents).order_by(*order)).mappings()
    used = {
        agent: tuple(capability_row(entry["capability_id"], entry["entry"]) for entry in group)
        for agent, group in groupby(entries, key=lambda entry: entry["agent_id"])
    }
    return [_row(row, used.get(row["id"], ())) for row in rows]


def _sizes(connection: Connection, rows: Sequence[RowMapping]) -> list[int]:
    """Return the approximate size of each agent, including its capabilities."""
    used, ids = agent_capabilities.c, [row["id"] for row in rows]
    statement = select(used.agent_id, func.sum(func.length(used.entry))).where(used.agent_id.in_(ids))
    entries = {agent: size or 0 for agent, size in connection.execute(statement.group_by(used.agent_id))}
    return [size_of(row.values()) + entries.get(row["id"], 0) for row in rows]


def _row(mapping: RowMapping, capabilities: tuple[CapabilityRow, ...]) -> AgentRow:
    values: dict[str, Any] = dict(mapping)
    values.update({name: json.loads(values[name]) for name in _JSON_FIELDS if values[name] is not None})
    values.update({name: tuple(values[name]) for name in _TEXT_LISTS})
    values.update(org=values["org"] or None, capabilities=capabilities)
    return AgentRow(**values)
