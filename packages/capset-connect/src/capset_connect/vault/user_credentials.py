"""The current credentials of users for servers: read from the vault, and renewed in time (spec 11, V11–V13)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from capset.clock import Clock
from capset.definitions.credentials import LentCredential, MissingCredential
from capset.definitions.governance.policies import Request
from capset.kernel.revocation import MAX_AGE_SECONDS
from capset.kernel.ttl_cache import TtlCache
from capset.stores.base import CredentialRow, Store
from capset_connect.token_requests import TokenAnswer, TokenRefused
from capset_connect.vault.delegations import Delegations, authority_of
from capset_connect.vault.providers import Provider, ProviderClient
from capset_connect.vault.renewals import Renewals
from capset_connect.vault.user_auth import UserServer
from capset_connect.vault.vault import CredentialOwner, CredentialSecret, Vault

_MARGIN_SECONDS: Final = 60.0
"""How long before its end an access token is renewed, so that it does not expire on its way."""
_USED_SECONDS: Final = 60.0
"""How precisely the time of the last use is stored."""
_EXCHANGED_SECONDS: Final = 3_600.0
"""How long an exchanged token is used at most."""
_OF_SUBJECT: Final = frozenset({"invalid_grant", "invalid_token", "invalid_request"})
"""The refusals of an exchange that are about the user's own token (RFC 8693, section 2.2.2), which is renewed then."""
_REFUSED_KEYS: Final = 10_000
"""How many keys that their servers have refused once are remembered."""
_OUTAGE_SECONDS: Final = 5.0
"""Refusals of a key within this time count as one: a server that restarts refuses all of its requests."""
_REFUSED_SECONDS: Final = 600.0
"""A refusal of a key counts together with one within this time before it."""


class UserCredentials:
    """The credentials of all users, as a kernel's ``CredentialSource``. ``client`` returns the client of a provider."""

    def __init__(self, vault: Vault, store: Store, clock: Clock, client: Callable[[Provider], ProviderClient]) -> None:
        self._vault = vault
        self._store = store.credentials
        self._clock = clock
        self._client = client
        self._delegations = Delegations(store.credentials, clock)
        self._renewals = Renewals(vault, store.credentials, clock, client)
        self._opened = TtlCache[CredentialOwner, tuple[CredentialRow, CredentialSecret] | None](MAX_AGE_SECONDS)
        self._declared: Mapping[str, UserServer] = {}
        self._refused = OrderedDict[tuple[str, int], int]()
        """The keys that their servers have refused once, with the time (ns)."""
        self._exchanged: dict[tuple[str, int, str], tuple[int, str]] = {}
        """Exchanged tokens by credential, version and purpose, with the time (ns) until which each is used."""

    def declare(self, servers: Mapping[str, UserServer]) -> None:
        """Set the servers that are used with credentials of users, after a configuration was read or reloaded."""
        self._declared = dict(servers)

    @property
    def declared(self) -> Mapping[str, UserServer]:
        """The servers that are used with credentials of users."""
        return self._declared

    def expiry(self, answer: TokenAnswer) -> str | None:
        """Return the end of an access token by this process's clock; ``None`` if the provider does not state it."""
        return self._renewals.expiry(answer)

    async def lend(
        self, request: Request, connection: str, *, refused: str | None = None
    ) -> LentCredential | MissingCredential:
        """Return the credential of a call's user for a server, renewed if necessary, or why there is none."""
        principal = request.principal
        server = self._declared.get(connection)
        if server is None:
            reason = f"no server {connection!r} is used with credentials of users here"
            return MissingCredential(connection, None, reason)
        if principal.kind == "anonymous":
            return MissingCredential(connection, None, "an anonymous caller has no credentials")
        if principal.on_behalf_of is not None:
            refusal = await self._delegations.refusal(request, server.connection)
            if refusal is not None:
                return MissingCredential(connection, None, refusal)
        owner = CredentialOwner(principal.org, authority_of(principal)[0], server.connection)
        lent = None if refused is not None else await self._cached(owner, server)
        return lent or await self._read(owner, server, refused)

    def forget(self, owner: CredentialOwner) -> None:
        """Read a credential again at its next use, because this process has changed it."""
        self._opened.invalidate(lambda cached, _: cached == owner)

    async def aclose(self) -> None:
        """Wait for the renewals that have begun: the next refresh token is in their answers."""
        await self._renewals.aclose()

    async def _read(
        self, owner: CredentialOwner, server: UserServer, refused: str | None
    ) -> LentCredential | MissingCredential:
        """Return the credential as it is stored now, renewed if necessary, or why there is none."""
        row = await self._store.find(owner.org, owner.principal, owner.server)
        if row is None:
            return _missing(owner, "is not connected")
        for is_last in (False, True):
            if row.binding != server.binding:
                return _missing(
                    owner, "has to be connected again: it is at another place, or has another provider, now"
                )
            if row.problem is not None:
                return _missing(owner, f"has to be connected again: {row.problem}")
            if missing := server.missing_scopes(row.scopes):
                return _missing(owner, f"was connected without the scopes {', '.join(missing)}")
            value = await self._value(row, server, refused, is_renewed=is_last)
            if value is not None:
                if self._is_use_unmarked(row):
                    await self._store.mark_used(row.id, self._renewals.time())
                    self.forget(owner)
                return LentCredential(f"{row.id}@{row.version}", owner.principal, value, server.purpose)
            provider = server.need.provider
            if provider is None or is_last:
                problem = "the server has refused the key" if provider is None else "the server has refused the token"
                row = await self._renewals.fail(row, problem)
                self.forget(owner)
                return _missing(owner, f"has to be connected again: {problem}")
            audience = None if server.need.is_exchanged else server.need.audience
            renewed = await self._renewals.renew(row, provider, audience)
            self.forget(owner)
            if renewed is None:
                return _missing(owner, "is not connected")
            row, refused = renewed, None if server.need.is_exchanged else refused
        raise AssertionError("the loop returns")

    async def _cached(self, owner: CredentialOwner, server: UserServer) -> LentCredential | None:
        """Return a credential that was read a moment ago, if a call can use it as it is."""
        opened = await self._opened.get(owner, lambda: self._open(owner))
        if opened is None:
            return None
        row, secret = opened
        if (
            row.binding != server.binding
            or row.problem is not None
            or server.need.is_exchanged
            or server.missing_scopes(row.scopes)
            or self._is_due(row)
            or self._is_use_unmarked(row)
        ):
            return None
        return LentCredential(f"{row.id}@{row.version}", owner.principal, secret.value, server.purpose)

    async def _open(self, owner: CredentialOwner) -> tuple[CredentialRow, CredentialSecret] | None:
        row = await self._store.find(owner.org, owner.principal, owner.server)
        return None if row is None else (row, await self._vault.read(row))

    async def _value(
        self, row: CredentialRow, server: UserServer, refused: str | None, *, is_renewed: bool
    ) -> str | None:
        """Return the key or token for a server; ``None`` if it has to be renewed first.

        A token that was renewed just now is used, however soon it ends.
        """
        provider, secret = server.need.provider, await self._vault.read(row)
        if provider is None:
            return secret.value if secret.value != refused or not self._is_refused_again(row) else None
        if secret.value == refused and secret.refresh is None and not self._is_due(row):
            return None if self._is_refused_again(row) else secret.value  # nothing can replace it: as a key
        if secret.value == refused or (self._is_due(row) and not is_renewed):
            return None
        if not server.need.is_exchanged:
            return secret.value
        try:
            return await self._exchange(row, secret.value, server, provider, refused)
        except TokenRefused as error:
            is_new = row.renewed_at > self._renewals.time(-_MARGIN_SECONDS)  # a newer one would be refused, too
            if error.reason in _OF_SUBJECT and not is_new:
                return None
            raise

    def _is_refused_again(self, row: CredentialRow) -> bool:
        """Note that a server has refused a key; return whether it has done so before, for another reason than now."""
        key, now = (row.id, row.version), self._clock.time_ns()
        seconds = (now - self._refused.get(key, 0)) / 1e9
        if _OUTAGE_SECONDS <= seconds <= _REFUSED_SECONDS:
            return True
        if seconds > _REFUSED_SECONDS:
            self._refused[key] = now
        if len(self._refused) > _REFUSED_KEYS:
            self._refused.popitem(last=False)
        return False

    def _is_due(self, row: CredentialRow) -> bool:
        return row.expires_at is not None and row.expires_at <= self._renewals.time(_MARGIN_SECONDS)

    async def _exchange(
        self, row: CredentialRow, token: str, server: UserServer, provider: Provider, refused: str | None
    ) -> str:
        """Return a token for one server, exchanged for that of the provider, until it expires or is refused."""
        key, now = (row.id, row.version, server.purpose), self._clock.time_ns()
        self._exchanged = {name: cached for name, cached in self._exchanged.items() if cached[0] > now}
        if (cached := self._exchanged.get(key)) is not None and cached[1] != refused:
            return cached[1]
        answer = await self._client(provider).exchange(token, server.need.scopes, server.need.audience)
        if answer.seconds > _MARGIN_SECONDS:
            lifetime = min(answer.seconds, _EXCHANGED_SECONDS) - _MARGIN_SECONDS
            self._exchanged[key] = now + round(lifetime * 1e9), answer.access
        return answer.access

    def _is_use_unmarked(self, row: CredentialRow) -> bool:
        return row.used_at is None or row.used_at <= self._renewals.time(-_USED_SECONDS)


def _missing(owner: CredentialOwner, state: str) -> MissingCredential:
    return MissingCredential(owner.server, owner.principal, f"{owner.server} {state}")
