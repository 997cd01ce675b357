"""The credentials of users, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import filters_of, page_by_id


class MemoryCredentials:
    """The credentials, by org, principal and server."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._rows: dict[tuple[str | None, str, str], CredentialRow] = {}
        self._delegations: dict[str, DelegationRow] = {}
        self._data_keys: dict[str | None, DataKeyRow] = {}
        self._authorizations: dict[str, AuthorizationRow] = {}

    async def put(self, row: CredentialRow, *, act: Entry | None = None) -> None:
        self._lifecycle.check()
        self._lifecycle.record(act)
        self._rows[row.org, row.principal, row.server] = row

    async def find(self, org: str | None, principal: str, server: str) -> CredentialRow | None:
        self._lifecycle.check()
        return self._rows.get((org, principal, server))

    async def get(self, org: str | None, id: str) -> CredentialRow | None:
        row = self._by_id(id)
        return row if row is not None and row.org == org else None

    async def list(self, query: CredentialQuery) -> Page[CredentialRow]:
        self._lifecycle.check()
        filters = filters_of(query, ("principal", "server"))
        return page_by_id(self._rows.values(), query, {"org": query.org, **filters})

    async def lease(self, id: str, version: int, *, now: str, until: str) -> bool:
        row = self._by_id(id)
        if row is None or row.version != version or (row.lease_until is not None and row.lease_until > now):
            return False
        self._replace(replace(row, lease_until=until))
        return True

    async def renew(self, previous: CredentialRow, then: CredentialRow) -> bool:
        row = self._by_id(previous.id)
        if row is None or row.version != previous.version:
            return False
        self._replace(replace(then, used_at=row.used_at, lease_until=None))
        return True

    async def mark_used(self, id: str, at: str) -> None:
        row = self._by_id(id)
        if row is not None:
            self._replace(replace(row, used_at=at))

    async def remove(self, org: str | None, id: str, *, act: Entry | None = None) -> bool:
        row = await self.get(org, id)
        if row is None:
            return False
        self._lifecycle.record(act)
        del self._rows[row.org, row.principal, row.server]
        owned = row.org, row.principal, row.server
        self._delegations = {
            delegation_id: delegation
            for delegation_id, delegation in self._delegations.items()
            if (delegation.org, delegation.principal, delegation.server) != owned
        }
        return True

    async def add_delegation(self, row: DelegationRow, *, act: Entry | None = None) -> None:
        self._lifecycle.check()
        self._lifecycle.record(act)
        self._delegations[row.id] = row

    async def delegations(self, query: DelegationQuery) -> Page[DelegationRow]:
        self._lifecycle.check()
        filters = {"org": query.org, "principal": query.principal, **filters_of(query, ("server", "delegate"))}
        return page_by_id(self._delegations.values(), query, filters)

    async def remove_delegation(self, org: str | None, principal: str, id: str, *, act: Entry | None = None) -> bool:
        self._lifecycle.check()
        row = self._delegations.get(id)
        if row is None or (row.org, row.principal) != (org, principal):
            return False
        self._lifecycle.record(act)
        del self._delegations[id]
        return True

    async def add_data_key(self, row: DataKeyRow) -> DataKeyRow:
        self._lifecycle.check()
        return self._data_keys.setdefault(row.org, row)

    async def data_key(self, org: str | None) -> DataKeyRow | None:
        self._lifecycle.check()
        return self._data_keys.get(org)

    async def data_keys(self) -> Sequence[DataKeyRow]:
        self._lifecycle.check()
        return sorted(self._data_keys.values(), key=lambda row: row.id)

    async def rewrap(self, previous: DataKeyRow, then: DataKeyRow) -> bool:
        if await self.data_key(previous.org) != previous:
            return False
        self._data_keys[previous.org] = then
        return True

    async def begin_authorization(self, row: AuthorizationRow) -> None:
        self._lifecycle.check()
        now = row.created_at
        self._authorizations = {key: begun for key, begun in self._authorizations.items() if begun.expires_at > now}
        self._authorizations[row.id] = row

    async def take_authorization(self, id: str, *, now: str) -> AuthorizationRow | None:
        self._lifecycle.check()
        row = self._authorizations.pop(id, None)
        return row if row is not None and row.expires_at > now else None

    def _by_id(self, id: str) -> CredentialRow | None:
        self._lifecycle.check()
        return next((row for row in self._rows.values() if row.id == id), None)

    def _replace(self, row: CredentialRow) -> None:
        self._rows[row.org, row.principal, row.server] = row
