"""The current credentials of users for servers: read from the vault, and renewed in time (spec 11, V5)."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from capset.clock import Clock, iso
from capset.definitions.credentials import LentCredential, MissingCredential
from capset.definitions.fields import checked_field, requiring, store_checked
from capset.definitions.identity import FrozenValue
from capset.definitions.names import checked_optional
from capset.definitions.principals import Principal
from capset.errors import DefinitionError, TransientError, unknown
from capset.stores.base import CredentialRow, Store
from capset.wire.tool_sources import ProviderShape, UserAuth
from capset_connect.declarations import words
from capset_connect.token_requests import TokenAnswer, TokenRefused
from capset_connect.vault.providers import Provider, ProviderClient
from capset_connect.vault.vault import CredentialOwner, CredentialSecret, Vault

_MARGIN_SECONDS: Final = 60.0
"""How long before its end an access token is renewed, so that it does not expire on its way."""
_LEASE_SECONDS: Final = 45.0
"""How long one process has to renew a credential: more than a token request may take (30 s)."""
_POLL_SECONDS: Final = 0.2
"""How often a process looks whether another one has renewed a credential."""
_USED_SECONDS: Final = 60.0
"""How precisely the time of the last use is stored."""
_LASTING: Final = frozenset({"invalid_grant", "invalid_token", "unauthorized_client", "access_denied"})
"""The refusals after which only the user can help, by connecting again."""
_log = logging.getLogger("capset.connect")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCredential(FrozenValue):
    """The declaration that a server is used with a credential of each user: a key that the user enters, or tokens.

    Raises ``DefinitionError`` for scopes or an audience without a provider.
    """

    provider: Provider | None = checked_field(
        requiring("{} must be a Provider", lambda value: isinstance(value, Provider), optional=True), None
    )
    """The provider at which users connect; without one, they enter a key."""
    scopes: Iterable[str] = checked_field(words, ())
    audience: str | None = checked_field(checked_optional, None)
    """The resource that tokens are for: the URL of the server, or another name that the provider knows."""

    def __post_init__(self) -> None:
        store_checked(self)
        if self.provider is None and (self.scopes or self.audience):
            raise DefinitionError("auth: scopes and audience need a provider")

    def connection(self, server: str) -> str:
        """Return what users connect to: the server, or the provider if its tokens are exchanged."""
        return f"provider:{self.provider.name}" if self.provider is not None and self.provider.exchange else server


def user_credential_of(
    owner: str, auth: UserAuth, providers: Mapping[str, ProviderShape], folder: Path
) -> UserCredential:
    """Return what a file in ``folder`` declares with ``auth``, in messages for ``owner``. Raises ``DefinitionError``."""
    if auth == "user":
        return UserCredential()
    if (shape := providers.get(auth.provider)) is None:
        raise DefinitionError(f"{owner}: auth: {unknown('provider', auth.provider, providers)}")
    options: dict[str, Any] = shape.model_dump(exclude_none=True)
    if "ca_file" in options:
        options["ca_file"] = str(folder / options["ca_file"])
    provider = Provider(name=auth.provider, **options)
    return UserCredential(provider=provider, scopes=auth.scopes or (), audience=auth.audience)


def needs_of(sources: Iterable[Any]) -> dict[str, UserCredential]:  # MCP servers and APIs; most have no ``auth``
    """Return the declarations of sources that are used with credentials of users, by the sources' names."""
    return {
        source.name: source.auth for source in sources if isinstance(getattr(source, "auth", None), UserCredential)
    }


class UserCredentials:
    """The credentials of all users, as a kernel's ``CredentialSource``. ``client`` returns the client of a provider."""

    def __init__(self, vault: Vault, store: Store, clock: Clock, client: Callable[[Provider], ProviderClient]) -> None:
        self._vault = vault
        self._store = store.credentials
        self._clock = clock
        self._client = client
        self._declared: Mapping[str, UserCredential] = {}
        self._renewing = WeakValueDictionary[str, asyncio.Lock]()
        self._exchanged: dict[tuple[str, int, str], tuple[int, str]] = {}
        """Exchanged tokens by credential, version and server, with the time (ns) until which each is used."""

    def declare(self, servers: Mapping[str, UserCredential]) -> None:
        """Set the servers that are used with credentials of users, after a configuration was read or reloaded."""
        self._declared = dict(servers)

    @property
    def declared(self) -> Mapping[str, UserCredential]:
        """The servers that are used with credentials of users."""
        return self._declared

    async def lend(
        self, principal: Principal, connection: str, *, tool: str, agent: str, refused: str | None = None
    ) -> LentCredential | MissingCredential:
        """Return the credential of a principal for a server, renewed if necessary, or why there is none."""
        need = self._declared.get(connection)
        if need is None:
            return MissingCredential(connection, None, f"no server {connection!r} is used with credentials of users here")
        if principal.kind == "anonymous":
            return MissingCredential(connection, None, "an anonymous caller has no credentials")
        if principal.on_behalf_of is not None:
            reason = f"{principal.on_behalf_of} has not let {principal.qualified_id} use its credentials"
            return MissingCredential(connection, None, reason)
        owner = CredentialOwner(principal.org, principal.qualified_id, need.connection(connection))
        row = await self._store.find(owner.org, owner.principal, owner.server)
        if row is None:
            return _missing(owner, "is not connected")
        if row.problem is not None:
            return _missing(owner, f"has to be connected again: {row.problem}")
        provider = need.provider
        is_exchanged = provider is not None and provider.exchange
        if not is_exchanged and (missing := _missing_scopes(row, need)):
            return _missing(owner, f"was connected without the scopes {', '.join(missing)}")
        secret = await self._vault.read(row)
        if provider is None and secret.value == refused:
            problem = await self._fail(row, "the server has refused the key")
            return _missing(owner, f"has to be connected again: {problem}")
        if provider is not None and (secret.value == refused or self._is_due(row)):
            renewed = await self._renew(row, provider, need.audience)
            if isinstance(renewed, str):
                return _missing(owner, f"has to be connected again: {renewed}")
            row, secret = renewed
        await self._mark_used(row)
        value = secret.value
        if provider is not None and is_exchanged:
            value = await self._exchange(row, secret, connection, provider, need, refused)
        return LentCredential(f"{row.id}@{row.version}", owner.principal, value)

    def _is_due(self, row: CredentialRow) -> bool:
        return row.expires_at is not None and row.expires_at <= self._time(_MARGIN_SECONDS)

    def _time(self, seconds: float = 0.0) -> str:
        return iso(self._clock.time_ns() + round(seconds * 1e9))

    async def _renew(
        self, row: CredentialRow, provider: Provider, audience: str | None
    ) -> tuple[CredentialRow, CredentialSecret] | str:
        """Renew a credential, here or by waiting for the process that does; return why it cannot be renewed."""
        lock = self._renewing.setdefault(row.id, asyncio.Lock())
        async with lock:
            while True:
                current = await self._store.get(row.org, row.id)
                if current is None:
                    return "it was disconnected"
                if current.problem is not None:
                    return current.problem
                if current.version != row.version:  # another call or process has renewed it
                    return current, await self._vault.read(current)
                if await self._store.lease(row.id, row.version, now=self._time(), until=self._time(_LEASE_SECONDS)):
                    return await self._renew_here(current, provider, audience)
                await asyncio.sleep(_POLL_SECONDS)

    async def _renew_here(
        self, row: CredentialRow, provider: Provider, audience: str | None
    ) -> tuple[CredentialRow, CredentialSecret] | str:
        secret = await self._vault.read(row)
        if secret.refresh is None:
            return await self._fail(row, "it has expired, and the provider gave no refresh token")
        try:
            answer = await self._client(provider).refresh(secret.refresh, audience)
        except TokenRefused as error:
            if error.reason not in _LASTING:
                await self._store.renew(row, row)  # which ends the lease
                raise TransientError(f"The connection to {provider.name} cannot be renewed: {error.message}") from None
            return await self._fail(row, f"the provider has refused to renew it ({error.reason})")
        except TransientError as error:
            await self._store.renew(row, row)
            raise TransientError(f"The connection to {provider.name} cannot be renewed: {error.message}") from None
        renewed_secret = CredentialSecret(answer.access, answer.refresh or secret.refresh)
        scopes = row.scopes if answer.scopes is None else answer.scopes
        renewed = await self._vault.renew(row, renewed_secret, scopes=scopes, expires_at=self.expiry(answer))
        return "it was disconnected" if renewed is None else (renewed, renewed_secret)

    async def _fail(self, row: CredentialRow, problem: str) -> str:
        await self._store.renew(row, replace(row, problem=problem))
        _log.warning("the credential %s of %s for %s: %s", row.id, row.principal, row.server, problem)
        return problem

    def expiry(self, answer: TokenAnswer) -> str | None:
        """Return the end of an access token by this process's clock; ``None`` if the provider does not state it."""
        return None if math.isinf(answer.seconds) else self._time(answer.seconds)

    async def _exchange(
        self,
        row: CredentialRow,
        secret: CredentialSecret,
        server: str,
        provider: Provider,
        need: UserCredential,
        refused: str | None,
    ) -> str:
        """Return a token for one server, exchanged for that of the provider, until it expires or is refused."""
        key, now = (row.id, row.version, server), self._clock.time_ns()
        self._exchanged = {name: token for name, token in self._exchanged.items() if token[0] > now}
        if (cached := self._exchanged.get(key)) is not None and cached[1] != refused:
            return cached[1]
        answer = await self._client(provider).exchange(secret.value, need.scopes, need.audience)
        if answer.seconds > _MARGIN_SECONDS:
            lifetime = min(answer.seconds, 3_600.0) - _MARGIN_SECONDS
            self._exchanged[key] = now + round(lifetime * 1e9), answer.access
        return answer.access

    async def _mark_used(self, row: CredentialRow) -> None:
        if row.used_at is None or row.used_at <= self._time(-_USED_SECONDS):
            await self._store.mark_used(row.id, self._time())


def _missing(owner: CredentialOwner, state: str) -> MissingCredential:
    return MissingCredential(owner.server, owner.principal, f"{owner.server} {state}")


def _missing_scopes(row: CredentialRow, need: UserCredential) -> list[str]:
    """Return the declared scopes that were not granted; none if the provider does not state what it granted."""
    return [scope for scope in need.scopes if scope not in row.scopes] if need.provider and row.scopes else []
