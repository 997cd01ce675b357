"""Connections of the principal to the servers of a configuration, in a local database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from capset.definitions.principals import Principal
from capset.errors import InvalidArguments
from capset.schemas.validation_errors import validation_fields
from capset.stores.base import CredentialQuery, DelegationQuery
from capset.wire.connections import (
    ConnectionListShape,
    ConnectionShape,
    CredentialPageShape,
    DelegationInput,
    DelegationPageShape,
    DelegationShape,
)
from capset_connect.vault.connections import ConnectionService
from capset_connect.vault.shapes import connection_shape, credential_shape, delegation_shape


class LocalConnections:
    """The methods of ``client.connections``; ``authorize`` returns to an address on this machine."""

    def __init__(self, connections: ConnectionService, principal: Principal) -> None:
        self._connections, self._principal = connections, principal

    async def list(self) -> ConnectionListShape:
        """List what the principal can connect, with what is connected."""
        connections = await self._connections.list(self._principal)
        return ConnectionListShape(items=[connection_shape(connection) for connection in connections])

    async def get(self, name: str) -> ConnectionShape:
        """Return a connection by its name, or by that of a server that uses it. Raises ``NotFound``."""
        return connection_shape(await self._connections.get(self._principal, name))

    async def enter_key(self, name: str, key: str) -> ConnectionShape:
        """Connect by a key. Raises ``NotFound``, ``Conflict`` and ``InvalidArguments``."""
        return connection_shape(await self._connections.enter_key(self._principal, name, key))

    async def authorize(self, name: str, redirect_uri: str) -> str:
        """Begin to connect at a provider, and return the page to open. Raises ``NotFound`` and ``Conflict``."""
        return await self._connections.begin(self._principal, name, redirect_uri)

    async def complete(self, answered: Mapping[str, str]) -> ConnectionShape:
        """Complete an authorization by the parameters of the provider's redirect. Raises ``PermissionDenied``."""
        return connection_shape(await self._connections.finish(self._principal, answered))

    async def disconnect(self, name: str) -> bool:
        """Delete the principal's credential; return whether the provider has revoked it. Raises ``NotFound``."""
        return await self._connections.disconnect(self._principal, name)

    async def delegate(
        self,
        name: str,
        delegate: str,
        *,
        tools: Iterable[str] = (),
        arguments: Mapping[str, Mapping[str, Any]] | None = None,  # JSON Schema
        until: datetime | None = None,
    ) -> DelegationShape:
        """Let another principal use a connection when it acts for the principal. Raises as ``enter_key`` does."""
        values = {
            "delegate": delegate,
            "tools": [*tools],
            "arguments": arguments and {argument: dict(schema) for argument, schema in arguments.items()},
            "until": until,
        }
        try:
            delegation = DelegationInput.model_validate(values)
        except ValidationError as error:
            problems = "; ".join(map(str, validation_fields(error, list(DelegationInput.model_fields), values)))
            raise InvalidArguments(f"Invalid request: {problems}") from None
        return delegation_shape(await self._connections.delegate(self._principal, name, delegation))

    async def delegations(self, *, limit: int = 50, cursor: str | None = None) -> DelegationPageShape:
        """List what the principal has let others use its connections for, newest first."""
        query = DelegationQuery(self._principal.org, self._principal.qualified_id, limit=limit, before=cursor)
        page = await self._connections.delegations(query)
        return DelegationPageShape(items=[delegation_shape(row) for row in page.items], next=page.next)

    async def end_delegation(self, id: str) -> None:
        """End a delegation. Raises ``NotFound``."""
        await self._connections.end_delegation(self._principal, id)

    async def credentials(self, *, limit: int = 50, cursor: str | None = None) -> CredentialPageShape:
        """List the credentials of the organisation, newest first."""
        page = await self._connections.rows(CredentialQuery(self._principal.org, limit=limit, before=cursor))
        return CredentialPageShape(items=[credential_shape(row) for row in page.items], next=page.next)

    async def revoke(self, id: str) -> bool:
        """Delete a credential of the organisation; return whether the provider has revoked it. Raises ``NotFound``."""
        return await self._connections.revoke(id, by=self._principal)
