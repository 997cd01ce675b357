"""Chat users, as entered by administrators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, insert, select

from capset.stores.base import Entry, Page, PersonQuery, PersonRow
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import people
from capset.stores.sql.writer.writer import Writer


class SqlPeople:
    """The people, one row each."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def add(self, row: PersonRow, *, act: Entry | None = None) -> bool:
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
        persons = await self._reader.read_all(select(people).where(_user(team, user)), person_row)
        return sorted(persons, key=lambda person: person.id)

    async def get(self, org: str | None, id: str) -> PersonRow | None:
        statement = select(people).where(people.c.org == (org or ""), people.c.id == id)
        return await self._reader.read_one(statement, person_row)

    async def list(self, query: PersonQuery) -> Page[PersonRow]:
        statement = select(people).where(people.c.org == (query.org or ""))
        return await self._reader.read_page(statement, query, person_row)

    async def remove(self, org: str | None, id: str, *, act: Entry | None = None) -> bool:
        deletion = delete(people).where((people.c.org == (org or "")) & (people.c.id == id))
        return await self._writer.write(lambda connection: bool(connection.execute(deletion).rowcount), act)


def _user(team: str, user: str) -> ColumnElement[bool]:
    return (people.c.team == team) & (people.c.user == user)


def person_row(mapping: RowMapping) -> PersonRow:
    """Convert a row of the table to a person."""
    values: dict[str, Any] = dict(mapping)
    values |= {"org": values["org"] or None, "permissions": tuple(json.loads(values["permissions"]))}
    values["attributes"] = values["attributes"] and json.loads(values["attributes"])
    values["makers"] = tuple(json.loads(values["makers"]))
    return PersonRow(**values)
