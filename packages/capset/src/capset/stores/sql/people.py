"""Chat users, as entered by administrators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, insert, select

from capset.stores.base import Entry, Page, PersonQuery, PersonRow
from capset.stores.sql.reader import ReadConnections, read_rows
from capset.stores.sql.schema.tables import people
from capset.stores.sql.writer.writer import Writer


class SqlPeople:
    """The people, one row each."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def add(self, row: PersonRow, *, act: Entry | None = None) -> bool:
        """Store a new person, unless the org already has that workspace user; return whether it was stored."""
        attributes = None if row.attributes is None else json.dumps(dict(row.attributes))
        lists = {"permissions": json.dumps(row.permissions), "makers": json.dumps(row.makers)}
        values = asdict(row) | {"org": row.org or "", "attributes": attributes} | lists
        same = _user(row.team, row.user) & (people.c.org == (row.org or ""))

        def write(connection: Connection) -> bool:
            if connection.execute(select(people.c.id).where(same)).first() is not None:
                return False
            connection.execute(insert(people).values(values))
            return True

        return await self._writer.write(write, act)

    async def find(self, team: str, user: str) -> Sequence[PersonRow]:
        """Return the persons of a workspace user, one per org, oldest first."""
        statement = select(people).where(_user(team, user))

        def read(connection: Connection) -> list[PersonRow]:
            rows = (person_row(row) for row in connection.execute(statement).mappings())
            return sorted(rows, key=lambda person: person.id)

        return await self._reader.read(read, is_one_statement=True)

    async def get(self, org: str | None, id: str) -> PersonRow | None:
        """Return a person of an org, or ``None``."""
        statement = select(people).where(people.c.org == (org or ""), people.c.id == id)

        def read(connection: Connection) -> PersonRow | None:
            row = connection.execute(statement).mappings().one_or_none()
            return None if row is None else person_row(row)

        return await self._reader.read(read, is_one_statement=True)

    async def list(self, query: PersonQuery) -> Page[PersonRow]:
        """Return people, newest first."""
        statement = select(people).where(people.c.org == (query.org or ""))
        if query.before is not None:
            statement = statement.where(people.c.id < query.before)
        statement = statement.order_by(people.c.id.desc())

        def read(connection: Connection) -> Page[PersonRow]:
            rows, has_more = read_rows(connection, statement, query.limit, query.max_bytes)
            items = tuple([person_row(row) for row in rows])
            return Page(items, items[-1].id if has_more else None)

        return await self._reader.read(read)

    async def remove(self, org: str | None, id: str, *, act: Entry | None = None) -> bool:
        """Delete a person of an org, and return whether there was one."""
        gone = delete(people).where((people.c.org == (org or "")) & (people.c.id == id))
        return await self._writer.write(lambda connection: bool(connection.execute(gone).rowcount), act)


def _user(team: str, user: str) -> ColumnElement[bool]:
    return (people.c.team == team) & (people.c.user == user)


def person_row(mapping: RowMapping) -> PersonRow:
    """Convert a row of the table to a person."""
    values: dict[str, Any] = dict(mapping)
    values |= {"org": values["org"] or None, "permissions": tuple(json.loads(values["permissions"]))}
    values["attributes"] = values["attributes"] and json.loads(values["attributes"])
    values["makers"] = tuple(json.loads(values["makers"]))
    return PersonRow(**values)
