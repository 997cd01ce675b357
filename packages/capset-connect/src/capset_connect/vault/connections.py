"""Connections of users: how they connect and disconnect what servers need of them (spec 11, V10, V14)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from capset.clock import iso_of
from capset.definitions.principals import Principal
from capset.errors import (
    CapsetError,
    Conflict,
    DefinitionError,
    InvalidArguments,
    NotFound,
    PermissionDenied,
    unknown,
)
from capset.kernel.kernel import Kernel
from capset.stores.base import CredentialKind, CredentialQuery, CredentialRow, DelegationQuery, DelegationRow, Page
from capset.wire.connections import DelegationInput
from capset_connect.pins.offers import shown
from capset_connect.token_requests import TokenRefused
from capset_connect.tool_rules import argument_policy
from capset_connect.vault.encryption import UnreadableSecret
from capset_connect.vault.providers import Provider, ProviderClient
from capset_connect.vault.user_auth import UserServer, user_servers
from capset_connect.vault.user_credentials import UserCredentials
from capset_connect.vault.vault import CredentialOwner, CredentialSecret, Vault

AUTHORIZATION_SECONDS: Final = 600.0
"""How long a user may take at the provider."""
MIN_KEY_CHARACTERS: Final = 8
"""Shorter texts are not masked in what servers answer: they occur by chance."""
MAX_KEY_CHARACTERS: Final = 8_192
_log = logging.getLogger("capset.connect")


@dataclass(frozen=True, slots=True)
class UserConnection:
    """Something that a user can connect, the servers that use it, and the user's credential, if there is one.

    Without ``servers``, it is not declared any more, and can only be disconnected.
    """

    name: str
    servers: tuple[UserServer, ...]
    row: CredentialRow | None

    @property
    def provider(self) -> Provider | None:
        """The provider at which users connect; ``None`` if they enter a key."""
        return self.servers[0].need.provider if self.servers else None

    @property
    def kind(self) -> CredentialKind:
        """How it is connected."""
        if not self.servers and self.row is not None:
            return self.row.kind
        return "key" if self.provider is None else "oauth"

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that users grant, for all servers together."""
        provider = self.provider
        if provider is None:
            return ()
        wanted = [] if provider.exchange else [scope for server in self.servers for scope in server.need.scopes]
        return tuple(dict.fromkeys((*provider.scopes, *wanted)))

    @property
    def audience(self) -> str | None:
        """The resource that tokens are for; ``None`` if they are exchanged."""
        return None if not self.servers or self.servers[0].need.is_exchanged else self.servers[0].need.audience

    @property
    def missing_scopes(self) -> tuple[str, ...]:
        """The scopes of its servers that were not granted, if the provider states what it granted."""
        if self.row is None:
            return ()
        return tuple(
            dict.fromkeys(scope for server in self.servers for scope in server.missing_scopes(self.row.scopes))
        )

    @property
    def problem(self) -> str | None:
        """Why the credential cannot be used any more, if there is one."""
        if self.row is None:
            return None
        if not self.servers:
            return "no server uses it any more"
        if self.row.binding != self.servers[0].binding:
            return "the server is at another place, or has another provider, now"
        return self.row.problem

    @property
    def is_usable(self) -> bool:
        """Whether calls can use it."""
        return self.row is not None and self.problem is None and not self.missing_scopes


class ConnectionService:
    """The connections of a kernel's users. ``client`` returns the client of a provider."""

    def __init__(
        self,
        kernel: Kernel,
        vault: Vault,
        credentials: UserCredentials,
        client: Callable[[Provider], ProviderClient],
    ) -> None:
        self._kernel = kernel
        self._vault = vault
        self._credentials = credentials
        self._client = client

    def declare(self, sources: Iterable[Any]) -> None:  # MCP servers and APIs; most have no ``auth``
        """Set the servers that are used with credentials of users, after a configuration was reloaded."""
        self._credentials.declare(user_servers(sources))

    async def list(self, principal: Principal) -> Sequence[UserConnection]:
        """Return what a principal can connect or has connected, by name."""
        declared, rows = self._declared(), await self._rows(principal)
        return [UserConnection(name, declared.get(name, ()), rows.get(name)) for name in sorted({*declared, *rows})]

    async def get(self, principal: Principal, name: str) -> UserConnection:
        """Return one of them, by its name or by that of a server. Raises ``NotFound``."""
        declared, server = self._declared(), self._credentials.declared.get(name)
        if server is not None:
            name = server.connection
        row = await self._kernel.store.credentials.find(principal.org, principal.qualified_id, name)
        if name not in declared and row is None:
            raise NotFound(unknown("connection", name, declared))
        return UserConnection(name, declared.get(name, ()), row)

    async def enter_key(self, principal: Principal, name: str, key: str) -> UserConnection:
        """Store a key that a user has entered. Raises ``NotFound``, ``InvalidArguments`` and ``Conflict``."""
        connection = await self._declared_connection(principal, name)
        if connection.provider is not None:
            raise Conflict(f"{connection.name} is connected at {connection.provider.name}, not by a key")
        if (
            not (MIN_KEY_CHARACTERS <= len(key) <= MAX_KEY_CHARACTERS)
            or not key.isascii()
            or not key.isprintable()
            or " " in key
        ):
            raise InvalidArguments(
                f"Invalid request: a key is {MIN_KEY_CHARACTERS} to {MAX_KEY_CHARACTERS:,} printable ASCII characters "
                "without spaces"
            )
        return await self._store(principal, connection, CredentialSecret(key), scopes=(), expires_at=None)

    async def begin(self, principal: Principal, name: str, redirect_uri: str) -> str:
        """Return the page of the provider at which a user connects.

        Raises ``NotFound``, ``Conflict``, and ``TransientError`` if the provider's metadata cannot be read.
        """
        connection = await self._declared_connection(principal, name)
        if connection.provider is None:
            raise Conflict(f"{connection.name} is connected by a key, which you enter here")
        client = self._client(connection.provider)
        start = await client.begin(redirect_uri, connection.scopes, connection.audience)
        owner, binding = _owner(principal, connection.name), connection.servers[0].binding
        await self._vault.begin(owner, start, binding=binding, redirect_uri=redirect_uri, seconds=AUTHORIZATION_SECONDS)
        return start.url

    async def finish(self, principal: Principal, answered: Mapping[str, str]) -> UserConnection:
        """Complete an authorization by the parameters of the provider's redirect, and return what is connected now.

        Raises ``PermissionDenied`` if the principal has not begun it or the provider refused, and ``TransientError`` if
        the provider cannot be reached.
        """
        state = answered.get("state", "")
        begun = await self._vault.take(state)
        if begun is None:
            raise PermissionDenied("Permission denied: this authorization has ended or expired. Connect again.")
        if (begun.org, begun.principal) != (principal.org, principal.qualified_id):
            raise PermissionDenied("Permission denied: another user has begun this authorization.")
        connection = await self._declared_connection(principal, begun.server)
        provider = connection.provider
        if provider is None:
            raise Conflict(f"{connection.name} is not connected at a provider any more")
        if "iss" in answered and not self._is_issuer_of(provider, answered["iss"]):  # RFC 9207
            raise PermissionDenied("Permission denied: this response is from another provider. Connect again.")
        if "error" in answered:
            description = answered.get("error_description") or answered["error"]
            raise PermissionDenied(f"Permission denied: {provider.name} answered: {shown(description)}")
        try:
            verifier = await self._vault.verifier_of(begun, state, binding=connection.servers[0].binding)
        except UnreadableSecret:
            raise PermissionDenied(
                f"Permission denied: {connection.name} is declared otherwise now. Connect again."
            ) from None
        try:
            answer = await self._client(provider).redeem(
                answered.get("code", ""), verifier, begun.redirect_uri, connection.audience
            )
        except TokenRefused as error:
            raise PermissionDenied(f"Permission denied: {error.message}") from None
        secret = CredentialSecret(answer.access, answer.refresh)
        scopes = connection.scopes if answer.scopes is None else answer.scopes
        expires_at = self._credentials.expiry(answer)
        return await self._store(principal, connection, secret, scopes=scopes, expires_at=expires_at)

    async def disconnect(self, principal: Principal, name: str) -> bool:
        """Delete a principal's credential, and revoke it at the provider. Return whether the provider has revoked it.

        Raises ``NotFound`` if there is none, ``InvalidArguments`` for the name of one of several servers that use it,
        and ``PermissionDenied`` as for ``enter_key``.
        """
        _owner(principal, name)
        connection = await self.get(principal, name)
        _check_whole(connection, name)
        if connection.row is None:
            raise NotFound(f"{connection.name} is not connected")
        return await self._remove(connection.row, principal)

    async def revoke(self, id: str, *, by: Principal) -> bool:
        """Disconnect another principal of the org, as an administrator. Raises ``NotFound``."""
        row = await self._kernel.store.credentials.get(by.org, id)
        if row is None:
            raise NotFound(f"there is no credential {id!r}")
        return await self._remove(row, by)

    async def delegate(self, principal: Principal, name: str, delegation: DelegationInput) -> DelegationRow:
        """Let another principal, when it acts for this one, use a connection for some calls.

        Raises ``NotFound`` and ``InvalidArguments``.
        """
        kernel, connection = self._kernel, await self._declared_connection(principal, name)
        _check_whole(connection, name)
        owner, delegate = _owner(principal, connection.name), delegation.delegate
        if delegate == owner.principal:
            raise InvalidArguments("Invalid request: delegate: another principal than the owner is expected")
        try:
            argument_policy("delegation", delegation.arguments or {}, ())
        except DefinitionError as error:
            raise InvalidArguments(f"Invalid request: {error.message}", hint=error.hint) from None
        row = DelegationRow(
            id=kernel.new_id(),
            org=owner.org,
            principal=owner.principal,
            server=owner.server,
            delegate=delegate,
            tools=tuple(delegation.tools),
            arguments=None if delegation.arguments is None else json.dumps(delegation.arguments),
            expires_at=None if delegation.until is None else iso_of(delegation.until),
            created_at=kernel.now(),
        )
        about = {"id": row.id, "server": row.server, "principal": row.principal, "delegate": delegate}
        about |= {"tools": row.tools, "arguments": delegation.arguments, "until": row.expires_at}
        act = kernel.act("delegation.create", about, by=principal, org=owner.org)
        await kernel.store.credentials.add_delegation(row, act=act)
        return row

    async def delegations(self, query: DelegationQuery) -> Page[DelegationRow]:
        """Return what a principal has let others use its connections for, newest first."""
        return await self._kernel.store.credentials.delegations(query)

    async def end_delegation(self, principal: Principal, id: str) -> None:
        """End a delegation of a principal. Raises ``NotFound``, and ``PermissionDenied`` as for ``enter_key``."""
        owner, kernel = _owner(principal, ""), self._kernel
        act = kernel.act("delegation.end", {"id": id, "principal": owner.principal}, by=principal, org=owner.org)
        if not await kernel.store.credentials.remove_delegation(owner.org, owner.principal, id, act=act):
            raise NotFound(f"there is no delegation {id!r}")

    async def rows(self, query: CredentialQuery) -> Page[CredentialRow]:
        """Return the credentials of an org, for administrators, newest first."""
        return await self._kernel.store.credentials.list(query)

    async def _store(
        self,
        principal: Principal,
        connection: UserConnection,
        secret: CredentialSecret,
        *,
        scopes: tuple[str, ...],
        expires_at: str | None,
    ) -> UserConnection:
        owner, kernel = _owner(principal, connection.name), self._kernel
        about = {"server": connection.name, "principal": owner.principal, "kind": connection.kind, "scopes": [*scopes]}
        act = kernel.act("credential.connect", about, by=principal, org=principal.org)
        binding = connection.servers[0].binding
        row = await self._vault.put(
            owner, connection.kind, secret, binding=binding, scopes=scopes, expires_at=expires_at, act=act
        )
        self._credentials.forget(owner)
        # The credential that this one replaces is not revoked: providers revoke all tokens of a user together.
        connected = UserConnection(connection.name, connection.servers, row)
        if connected.is_usable:
            await kernel.approvals.complete_connection(connection.name, principal)
        return connected

    async def _remove(self, row: CredentialRow, by: Principal) -> bool:
        kernel = self._kernel
        about = {"id": row.id, "server": row.server, "principal": row.principal}
        act = kernel.act("credential.disconnect", about, by=by, org=by.org)
        if not await kernel.store.credentials.remove(row.org, row.id, act=act):
            raise NotFound(f"{row.server} is not connected")
        self._credentials.forget(CredentialOwner(row.org, row.principal, row.server))
        return await self._revoke_at_provider(row)

    async def _revoke_at_provider(self, row: CredentialRow) -> bool:
        """Revoke what a row held at the provider that issued it; return whether the provider has confirmed that."""
        servers = self._declared().get(row.server, ())
        provider = servers[0].need.provider if servers and servers[0].binding == row.binding else None
        if provider is None:
            return False
        try:
            secret = await self._vault.read(row)
            return await self._client(provider).revoke(secret.refresh or secret.value)
        except CapsetError as error:
            _log.warning("the credential %s is deleted here, but not revoked at %s: %s", row.id, provider.name, error)
            return False

    def _is_issuer_of(self, provider: Provider, issuer: str) -> bool:
        """Return whether a response of a provider may name an issuer; without one of its own, none of another."""
        if provider.issuer is not None:
            return issuer == provider.issuer
        providers = (server.need.provider for server in self._credentials.declared.values())
        return issuer not in {other.issuer for other in providers if other is not None}

    def _declared(self) -> Mapping[str, tuple[UserServer, ...]]:
        """Return the servers that use each connection, by its name."""
        declared: dict[str, list[UserServer]] = {}
        for _, server in sorted(self._credentials.declared.items()):
            declared.setdefault(server.connection, []).append(server)
        return {name: tuple(servers) for name, servers in declared.items()}

    async def _declared_connection(self, principal: Principal, name: str) -> UserConnection:
        connection = await self.get(principal, name)
        if not connection.servers:
            raise NotFound(f"no server uses {name!r} any more")
        return connection

    async def _rows(self, principal: Principal) -> Mapping[str, CredentialRow]:
        query = CredentialQuery(principal.org, principal.qualified_id, limit=1_000)
        return {row.server: row for row in (await self._kernel.store.credentials.list(query)).items}


def _check_whole(connection: UserConnection, name: str) -> None:
    """Raise ``InvalidArguments`` if a name is that of one of several servers that use a connection."""
    if name != connection.name and len(connection.servers) > 1:
        servers = ", ".join(server.name for server in connection.servers)
        raise InvalidArguments(
            f"Invalid request: {name} is one of the servers of {connection.name} ({servers}), which are connected "
            f"together: name {connection.name}"
        )


def _owner(principal: Principal, name: str) -> CredentialOwner:
    if principal.kind == "anonymous" or principal.on_behalf_of is not None:
        raise PermissionDenied("Permission denied: only a user who acts in person can connect something.")
    return CredentialOwner(principal.org, principal.qualified_id, name)
