"""Connections of users: how they connect and disconnect what servers need of them (spec 11, V7)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from capset.definitions.principals import Principal
from capset.errors import CapsetError, Conflict, InvalidArguments, NotFound, PermissionDenied, unknown
from capset.kernel.kernel import Kernel
from capset.stores.base import CredentialQuery, CredentialRow, Page
from capset_connect.token_requests import TokenRefused
from capset_connect.vault.providers import Provider, ProviderClient
from capset_connect.vault.user_credentials import UserCredential, UserCredentials, needs_of
from capset_connect.vault.vault import CredentialOwner, CredentialSecret, Vault

AUTHORIZATION_SECONDS: Final = 600.0
"""How long a user may take at the provider."""
MAX_KEY_CHARACTERS: Final = 8_192
_log = logging.getLogger("capset.connect")


@dataclass(frozen=True, slots=True)
class UserConnection:
    """Something that users connect: its name, the servers that use it, and the user's credential, if there is one.

    Without a ``provider``, users enter a key. ``scopes`` are those of all servers together.
    """

    name: str
    servers: tuple[str, ...]
    provider: Provider | None
    scopes: tuple[str, ...]
    row: CredentialRow | None

    @property
    def kind(self) -> Literal["key", "oauth"]:
        """How it is connected: by a key that the user enters, or by an authorization of the provider."""
        return "key" if self.provider is None else "oauth"

    @property
    def missing_scopes(self) -> tuple[str, ...]:
        """The scopes that were not granted, if the provider states what it granted."""
        granted = () if self.row is None else self.row.scopes
        return tuple(scope for scope in self.scopes if scope not in granted) if granted else ()

    @property
    def is_usable(self) -> bool:
        """Whether calls can use it."""
        return self.row is not None and self.row.problem is None and not self.missing_scopes


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
        self._credentials.declare(needs_of(sources))

    async def list(self, principal: Principal) -> Sequence[UserConnection]:
        """Return what a principal can connect, by name, with what it has connected."""
        declared = self._declared()
        return [await self._connection(principal, name, declared[name]) for name in sorted(declared)]

    async def get(self, principal: Principal, name: str) -> UserConnection:
        """Return one of them, by its name or by that of a server. Raises ``NotFound``."""
        declared = self._declared()
        if name not in declared and (need := self._credentials.declared.get(name)) is not None:
            name = need.connection(name)
        if name not in declared:
            raise NotFound(unknown("connection", name, declared))
        return await self._connection(principal, name, declared[name])

    async def enter_key(self, principal: Principal, name: str, key: str) -> CredentialRow:
        """Store a key that a user has entered. Raises ``InvalidArguments`` and ``Conflict``."""
        connection = await self.get(principal, name)
        if connection.provider is not None:
            raise Conflict(f"{connection.name} is connected at {connection.provider.name}, not by a key")
        if not (0 < len(key) <= MAX_KEY_CHARACTERS) or not key.isascii() or not key.isprintable() or " " in key:
            raise InvalidArguments(
                f"Invalid request: a key is 1 to {MAX_KEY_CHARACTERS:,} printable ASCII characters without spaces"
            )
        return await self._store(principal, connection, CredentialSecret(key), scopes=(), expires_at=None)

    async def begin(self, principal: Principal, name: str, redirect_uri: str) -> str:
        """Return the page of the provider at which a user connects. Raises ``Conflict`` and ``TransientError``."""
        connection = await self.get(principal, name)
        if connection.provider is None:
            raise Conflict(f"{connection.name} is connected by a key, which you enter here")
        client = self._client(connection.provider)
        start = await client.begin(redirect_uri, connection.scopes, self._audience(connection))
        owner = self._owner(principal, connection.name)
        await self._vault.begin(owner, start.state, start.verifier, redirect_uri, AUTHORIZATION_SECONDS)
        return start.url

    async def finish(self, principal: Principal, answered: Mapping[str, str]) -> UserConnection:
        """Complete an authorization by the parameters of the provider's redirect, and return what is connected now.

        Raises ``PermissionDenied`` if the principal has not begun it or the provider refused, and ``TransientError`` if
        the provider cannot be reached.
        """
        taken = await self._vault.take(answered.get("state", ""))
        if taken is None:
            raise PermissionDenied("Permission denied: this authorization has ended or expired. Connect again.")
        owner, verifier, redirect_uri = taken
        if (owner.org, owner.principal) != (principal.org, principal.qualified_id):
            raise PermissionDenied("Permission denied: another user has begun this authorization.")
        connection = await self.get(principal, owner.server)
        if connection.provider is None:
            raise Conflict(f"{connection.name} is not connected at a provider any more")
        expected = connection.provider.issuer
        if expected is not None and answered.get("iss", expected) != expected:  # RFC 9207
            raise PermissionDenied("Permission denied: this response is from another provider. Connect again.")
        if "error" in answered:
            description = answered.get("error_description") or answered["error"]
            raise PermissionDenied(f"Permission denied: {connection.provider.name} answered: {description:.200}")
        try:
            answer = await self._client(connection.provider).redeem(
                answered.get("code", ""), verifier, redirect_uri, self._audience(connection)
            )
        except TokenRefused as error:
            raise PermissionDenied(f"Permission denied: {error.message}") from None
        secret = CredentialSecret(answer.access, answer.refresh)
        scopes = connection.scopes if answer.scopes is None else answer.scopes
        await self._store(principal, connection, secret, scopes=scopes, expires_at=self._credentials.expiry(answer))
        return await self.get(principal, connection.name)

    async def disconnect(self, principal: Principal, name: str) -> bool:
        """Delete a principal's credential, and revoke it at the provider. Return whether the provider has revoked it.

        Raises ``NotFound`` if there is none.
        """
        row = await self._kernel.store.credentials.find(principal.org, principal.qualified_id, name)
        if row is None:
            raise NotFound(f"{name} is not connected")
        return await self._remove(row, principal)

    async def revoke(self, id: str, *, by: Principal) -> bool:
        """Disconnect another principal of the org, as an administrator. Raises ``NotFound``."""
        row = await self._kernel.store.credentials.get(by.org, id)
        if row is None:
            raise NotFound(f"there is no credential {id!r}")
        return await self._remove(row, by)

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
    ) -> CredentialRow:
        owner, kernel = self._owner(principal, connection.name), self._kernel
        about = {"server": connection.name, "principal": owner.principal, "kind": connection.kind, "scopes": [*scopes]}
        act = kernel.act("credential.connect", about, by=principal, org=principal.org)
        row = await self._vault.put(
            owner, connection.kind, secret, scopes=scopes, expires_at=expires_at, act=act
        )
        await kernel.approvals.complete_connection(connection.name, principal)
        return row

    async def _remove(self, row: CredentialRow, by: Principal) -> bool:
        kernel, provider = self._kernel, self._provider(row.server)
        secret: CredentialSecret | None = None
        with suppress(CapsetError):  # what cannot be read is deleted all the same
            secret = await self._vault.read(row) if provider is not None else None
        about = {"id": row.id, "server": row.server, "principal": row.principal}
        act = kernel.act("credential.disconnect", about, by=by, org=by.org)
        if not await kernel.store.credentials.remove(row.org, row.id, act=act):
            raise NotFound(f"{row.server} is not connected")
        if provider is None or secret is None:
            return False
        try:
            return await self._client(provider).revoke(secret.refresh or secret.value)
        except CapsetError as error:
            _log.warning("the credential %s is deleted here, but not revoked at %s: %s", row.id, provider.name, error)
            return False

    def _declared(self) -> Mapping[str, Mapping[str, UserCredential]]:
        """Return the servers that use each connection, by its name."""
        declared: dict[str, dict[str, UserCredential]] = {}
        for server, need in self._credentials.declared.items():
            declared.setdefault(need.connection(server), {})[server] = need
        return declared

    async def _connection(self, principal: Principal, name: str, servers: Mapping[str, UserCredential]) -> UserConnection:
        needs = [*servers.values()]
        provider = needs[0].provider
        is_exchanged = provider is not None and provider.exchange
        wanted = [] if is_exchanged else [scope for need in needs for scope in need.scopes]
        scopes = (*provider.scopes, *wanted) if provider is not None else ()
        row = await self._kernel.store.credentials.find(principal.org, principal.qualified_id, name)
        return UserConnection(name, tuple(sorted(servers)), provider, tuple(dict.fromkeys(scopes)), row)

    def _provider(self, name: str) -> Provider | None:
        servers = self._declared().get(name)
        return None if servers is None else next(iter(servers.values())).provider

    def _audience(self, connection: UserConnection) -> str | None:
        """Return who the tokens of a connection are for; no one in particular if they are exchanged."""
        if connection.provider is None or connection.provider.exchange:
            return None
        return self._credentials.declared[connection.servers[0]].audience

    def _owner(self, principal: Principal, name: str) -> CredentialOwner:
        if principal.kind == "anonymous":
            raise PermissionDenied("Permission denied: an anonymous caller cannot connect anything.")
        return CredentialOwner(principal.org, principal.qualified_id, name)
