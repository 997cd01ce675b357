"""``/v1/connections``: what callers can connect, so that calls use their own credentials (spec 11, V30)."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query

from capset.errors import Conflict, NotFound
from capset.stores.base import CredentialQuery, DelegationQuery
from capset.wire.connections import (
    AuthorizationAnswer,
    AuthorizationShape,
    ConnectionKeyInput,
    ConnectionListShape,
    ConnectionShape,
    CredentialPageShape,
    DelegationInput,
    DelegationPageShape,
    DelegationShape,
    DisconnectedShape,
)
from capset_connect.vault.connections import ConnectionService
from capset_connect.vault.shapes import connection_shape, credential_shape, delegation_shape
from capset_server.rest.routing import Administers, Calls, Id, Paged, Served, StrictRoute, problems
from capset_server.service import Service

CALLBACK: Final = "/connections/callback"
"""The path that providers redirect to. It must be registered there, below the public URL."""
router = APIRouter(tags=["connections"], route_class=StrictRoute)


@router.get("/connections", responses=problems(422), operation_id="list_connections")
async def list_connections(service: Served, caller: Calls) -> ConnectionListShape:
    """List what the caller can connect, with what is connected."""
    if service.connections is None:
        return ConnectionListShape(items=[])
    connections = await service.connections.list(caller.principal)
    return ConnectionListShape(items=[connection_shape(connection) for connection in connections])


@router.get("/credentials", responses=problems(404, 422), operation_id="list_credentials")
async def list_credentials(
    service: Served, caller: Administers, params: Annotated[Paged, Query()]
) -> CredentialPageShape:
    """List the credentials of the organisation's principals, newest first, without their values."""
    page = await connections_of(service).rows(
        CredentialQuery(caller.principal.org, limit=params.limit, before=params.cursor)
    )
    return CredentialPageShape(items=[credential_shape(row) for row in page.items], next=page.next)


@router.delete("/credentials/{id}", responses=problems(404, 422), operation_id="revoke_credential")
async def revoke_credential(service: Served, caller: Administers, id: Id) -> DisconnectedShape:
    """Delete a credential of a principal of the organisation, and revoke it at its provider."""
    return DisconnectedShape(revoked=await connections_of(service).revoke(id, by=caller.principal))


@router.post(
    "/connections/callback",
    responses=problems(400, 404, 409, 413, 415, 422, 503),
    operation_id="complete_authorization",
)
async def complete(service: Served, caller: Calls, body: AuthorizationAnswer) -> ConnectionShape:
    """Complete an authorization that the caller has begun. Calls that wait for the connection continue."""
    answered = body.model_dump(exclude_none=True)
    return connection_shape(await connections_of(service).finish(caller.principal, answered))


@router.get("/delegations", responses=problems(404, 422), operation_id="list_delegations")
async def list_delegations(service: Served, caller: Calls, params: Annotated[Paged, Query()]) -> DelegationPageShape:
    """List what the caller has let others use its connections for, newest first."""
    principal = caller.principal
    query = DelegationQuery(principal.org, principal.qualified_id, limit=params.limit, before=params.cursor)
    page = await connections_of(service).delegations(query)
    return DelegationPageShape(items=[delegation_shape(row) for row in page.items], next=page.next)


@router.delete("/delegations/{id}", status_code=204, responses=problems(404, 422), operation_id="end_delegation")
async def end_delegation(service: Served, caller: Calls, id: Id) -> None:
    """End a delegation of the caller. The next call that needs it is refused."""
    await connections_of(service).end_delegation(caller.principal, id)


@router.post(
    "/connections/{name}/delegations",
    status_code=201,
    responses=problems(400, 404, 409, 413, 415, 422),
    operation_id="create_delegation",
)
async def create_delegation(service: Served, caller: Calls, name: Id, body: DelegationInput) -> DelegationShape:
    """Let another principal use a connection when it acts for the caller, for some tools, arguments and time."""
    return delegation_shape(await connections_of(service).delegate(caller.principal, name, body))


@router.get("/connections/{name}", responses=problems(404, 422), operation_id="get_connection")
async def get_connection(service: Served, caller: Calls, name: Id) -> ConnectionShape:
    """Return a connection by its name, or by that of a server that uses it."""
    return connection_shape(await connections_of(service).get(caller.principal, name))


@router.put("/connections/{name}/key", responses=problems(400, 404, 409, 413, 415, 422), operation_id="enter_key")
async def enter_key(service: Served, caller: Calls, name: Id, body: ConnectionKeyInput) -> ConnectionShape:
    """Connect by a key. It replaces an earlier one. Calls that wait for the connection continue."""
    connections = connections_of(service)
    return connection_shape(await connections.enter_key(caller.principal, name, body.key.get_secret_value()))


@router.post(
    "/connections/{name}/authorize", responses=problems(404, 409, 422, 503), operation_id="authorize_connection"
)
async def authorize(service: Served, caller: Calls, name: Id) -> AuthorizationShape:
    """Begin to connect at the provider. The caller opens the page, signed in to the console, within ten minutes."""
    connections = connections_of(service)
    await connections.get(caller.principal, name)
    if service.public_url is None:
        raise Conflict(
            "the provider has to redirect back to this server, whose public URL is not set",
            hint="start it with --public-url",
        )
    redirect_uri = service.public_url.rstrip("/") + CALLBACK
    return AuthorizationShape(url=await connections.begin(caller.principal, name, redirect_uri))


@router.delete("/connections/{name}", responses=problems(404, 422), operation_id="disconnect")
async def disconnect(service: Served, caller: Calls, name: Id) -> DisconnectedShape:
    """Delete the caller's credential, and revoke it at the provider. Calls need a new connection then."""
    return DisconnectedShape(revoked=await connections_of(service).disconnect(caller.principal, name))


def connections_of(service: Service) -> ConnectionService:
    """Return the connections of a server. Raises ``NotFound`` if it has no vault."""
    if service.connections is None:
        raise NotFound("this server has no vault for credentials of users", hint="set CAPSET_VAULT_KEY")
    return service.connections
