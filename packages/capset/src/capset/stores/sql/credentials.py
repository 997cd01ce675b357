"""The credentials of users, the keys that encrypt them, and authorizations that have begun."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, insert, or_, select, update

from capset.stores.base import (
    AuthorizationRow,
    CredentialQuery,
    CredentialRow,
    DataKeyRow,
    DelegationQuery,
    DelegationRow,
    Entry,
    Page,
)
from capset.stores.pages import filters_of
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.credential_tables import authorizations, credentials, data_keys, delegations
from capset.stores.sql.writer.writer import Writer


class SqlCredentials:
    """The credentials, one row each."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def put(self, row: CredentialRow, *, act: Entry | None = None) -> None:
        replaced = delete(credentials).where(_of_principal(row.org, row.principal, row.server))
        stored = insert(credentials).values(_values(row))

        def write(connection: Connection) -> bool:
            connection.execute(replaced)
            connection.execute(stored)
            return True

        await self._writer.write(write, act)

    async def find(self, org: str | None, principal: str, server: str) -> CredentialRow | None:
        return await self._reader.read_one(select(credentials).where(_of_principal(org, principal, server)), _row)

    async def get(self, org: str | None, id: str) -> CredentialRow | None:
        statement = select(credentials).where(credentials.c.org == (org or ""), credentials.c.id == id)
        return await self._reader.read_one(statement, _row)

    async def list(self, query: CredentialQuery) -> Page[CredentialRow]:
        statement = select(credentials).where(credentials.c.org == (query.org or ""))
        return await self._reader.read_page(
            statement.filter_by(**filters_of(query, ("principal", "server"))), query, _row
        )

    async def lease(self, id: str, version: int, *, now: str, until: str) -> bool:
        is_free = or_(credentials.c.lease_until.is_(None), credentials.c.lease_until <= now)
        statement = update(credentials).where(_version(id, version), is_free).values(lease_until=until)
        return await self._changes(statement)

    async def renew(self, previous: CredentialRow, then: CredentialRow) -> bool:
        values = _values(replace(then, lease_until=None))
        del values["used_at"]
        return await self._changes(update(credentials).where(_version(previous.id, previous.version)).values(values))

    async def mark_used(self, id: str, at: str) -> None:
        await self._changes(update(credentials).where(credentials.c.id == id).values(used_at=at))

    async def remove(self, org: str | None, id: str, *, act: Entry | None = None) -> bool:
        of_id = (credentials.c.org == (org or "")) & (credentials.c.id == id)

        def write(connection: Connection) -> bool:
            removed = delete(credentials).where(of_id).returning(credentials.c.principal, credentials.c.server)
            owner = connection.execute(removed).first()
            if owner is None:
                return False
            names = delegations.c
            owned = (names.org == (org or "")) & (names.principal == owner.principal) & (names.server == owner.server)
            connection.execute(delete(delegations).where(owned))
            return True

        return await self._writer.write(write, act)

    async def add_delegation(self, row: DelegationRow, *, act: Entry | None = None) -> None:
        values = asdict(row) | {"org": row.org or "", "tools": json.dumps(row.tools)}
        await self._writer.write(lambda connection: connection.execute(insert(delegations).values(values)), act)

    async def delegations(self, query: DelegationQuery) -> Page[DelegationRow]:
        mine = (delegations.c.org == (query.org or "")) & (delegations.c.principal == query.principal)
        statement = select(delegations).where(mine).filter_by(**filters_of(query, ("server", "delegate")))
        return await self._reader.read_page(statement, query, _delegation)

    async def remove_delegation(self, org: str | None, principal: str, id: str, *, act: Entry | None = None) -> bool:
        names = delegations.c
        statement = delete(delegations).where(names.org == (org or ""), names.principal == principal, names.id == id)
        return await self._writer.write(lambda connection: bool(connection.execute(statement).rowcount), act)

    async def add_data_key(self, row: DataKeyRow) -> DataKeyRow:
        existing = select(data_keys).where(data_keys.c.org == (row.org or ""))

        def write(connection: Connection) -> DataKeyRow:
            if (stored := connection.execute(existing).mappings().first()) is not None:
                return _data_key(stored)
            connection.execute(insert(data_keys).values(asdict(row) | {"org": row.org or ""}))
            return row

        return await self._writer.write(write)

    async def data_key(self, org: str | None) -> DataKeyRow | None:
        return await self._reader.read_one(select(data_keys).where(data_keys.c.org == (org or "")), _data_key)

    async def data_keys(self) -> Sequence[DataKeyRow]:
        return await self._reader.read_all(select(data_keys).order_by(data_keys.c.id), _data_key)

    async def rewrap(self, previous: DataKeyRow, then: DataKeyRow) -> bool:
        is_same = (data_keys.c.id == previous.id) & (data_keys.c.wrapped == previous.wrapped)
        return await self._changes(update(data_keys).where(is_same).values(asdict(then) | {"org": then.org or ""}))

    async def begin_authorization(self, row: AuthorizationRow) -> None:
        expired = delete(authorizations).where(authorizations.c.expires_at <= row.created_at)
        stored = insert(authorizations).values(asdict(row) | {"org": row.org or ""})

        def write(connection: Connection) -> None:
            connection.execute(expired)
            connection.execute(stored)

        await self._writer.write(write)

    async def take_authorization(self, id: str, *, now: str) -> AuthorizationRow | None:
        def write(connection: Connection) -> AuthorizationRow | None:
            of_id = authorizations.c.id == id
            stored = connection.execute(select(authorizations).where(of_id)).mappings().first()
            if not connection.execute(delete(authorizations).where(of_id)).rowcount or stored is None:
                return None
            values: dict[str, Any] = {**stored, "org": stored["org"] or None}
            row = AuthorizationRow(**values)
            return row if row.expires_at > now else None

        return await self._writer.write(write)

    async def _changes(self, statement: Any) -> bool:  # SQLAlchemy's own types for updates are generic
        return await self._writer.write(lambda connection: bool(connection.execute(statement).rowcount))


def _of_principal(org: str | None, principal: str, server: str) -> ColumnElement[bool]:
    names = credentials.c
    return (names.org == (org or "")) & (names.principal == principal) & (names.server == server)


def _version(id: str, version: int) -> ColumnElement[bool]:
    return (credentials.c.id == id) & (credentials.c.version == version)


def _values(row: CredentialRow) -> dict[str, Any]:
    return asdict(row) | {"org": row.org or "", "scopes": json.dumps(row.scopes)}


def _row(mapping: RowMapping) -> CredentialRow:
    values: dict[str, Any] = dict(mapping)
    values |= {"org": values["org"] or None, "scopes": tuple(json.loads(values["scopes"]))}
    return CredentialRow(**values)


def _delegation(mapping: RowMapping) -> DelegationRow:
    values: dict[str, Any] = dict(mapping)
    values |= {"org": values["org"] or None, "tools": tuple(json.loads(values["tools"]))}
    return DelegationRow(**values)


def _data_key(mapping: RowMapping) -> DataKeyRow:
    values: dict[str, Any] = {**mapping, "org": mapping["org"] or None}
    return DataKeyRow(**values)
