"""Connections, credentials and delegations as they are shown (spec 11, V30)."""

from __future__ import annotations

import json

from capset.stores.base import CredentialRow, DelegationRow
from capset.wire.connections import ConnectionShape, CredentialShape, DelegationShape
from capset_connect.vault.connections import UserConnection


def connection_shape(connection: UserConnection) -> ConnectionShape:
    """Return the wire shape of a connection."""
    row = connection.row
    return ConnectionShape(
        name=connection.name,
        servers=[server.name for server in connection.servers],
        kind=connection.kind,
        provider=None if connection.provider is None else connection.provider.name,
        scopes=[*connection.scopes],
        connected=row is not None,
        usable=connection.is_usable,
        missing_scopes=[*connection.missing_scopes],
        problem=connection.problem,
        id=row and row.id,
        version=row and row.version,
        connected_at=row and row.created_at,
        renewed_at=row and row.renewed_at,
        expires_at=row and row.expires_at,
        used_at=row and row.used_at,
    )


def delegation_shape(row: DelegationRow) -> DelegationShape:
    """Return the wire shape of a delegation."""
    return DelegationShape(
        id=row.id,
        connection=row.server,
        delegate=row.delegate,
        tools=[*row.tools],
        arguments=None if row.arguments is None else json.loads(row.arguments),
        until=row.expires_at,
        created_at=row.created_at,
    )


def credential_shape(row: CredentialRow) -> CredentialShape:
    """Return the wire shape of a credential, without its value."""
    return CredentialShape(
        id=row.id,
        principal=row.principal,
        connection=row.server,
        kind=row.kind,
        version=row.version,
        scopes=[*row.scopes],
        connected_at=row.created_at,
        renewed_at=row.renewed_at,
        expires_at=row.expires_at,
        used_at=row.used_at,
        problem=row.problem,
    )
