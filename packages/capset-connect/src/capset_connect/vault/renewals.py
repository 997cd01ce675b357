"""Renewal of tokens, each version by one process (spec 11, V11)."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from capset.clock import Clock, iso
from capset.errors import CapsetError, StoreError, TransientError
from capset.stores.base import CredentialRow, CredentialStore
from capset_connect.token_requests import TokenAnswer, TokenRefused
from capset_connect.vault.providers import Provider, ProviderClient
from capset_connect.vault.vault import CredentialSecret, Vault

_LEASE_SECONDS: Final = 90.0
"""How long one process has to renew a credential: more than a token request (30 s) and two writes take."""
_POLL_SECONDS: Final = 0.2
"""How often a process looks whether another one has renewed a credential."""
_LONGEST_SECONDS: Final = 10 * 365 * 86_400.0
"""The longest lifetime of a token that is stored; longer ones count as this."""
_OF_TOKEN: Final = frozenset({"invalid_grant", "invalid_token", "invalid_refresh_token", "bad_refresh_token"})
"""The refusals after which the user has to connect again (RFC 6749, section 5.2; the last one is GitHub's).

After others the connection stays: the operator has to mend something, or the provider does not work at the moment.
"""
_STORE_TRIES: Final = 8
"""How often it is tried to store a renewed credential, every few seconds and within the lease."""
_STORE_SECONDS: Final = 4.0
_log = logging.getLogger("capset.connect")


class Renewals:
    """The renewals of credentials in one process. ``client`` returns the client of a provider."""

    def __init__(
        self, vault: Vault, store: CredentialStore, clock: Clock, client: Callable[[Provider], ProviderClient]
    ) -> None:
        self._vault = vault
        self._store = store
        self._clock = clock
        self._client = client
        self._locks = WeakValueDictionary[str, asyncio.Lock]()
        self._tasks = set[asyncio.Task[CredentialRow]]()

    async def renew(self, row: CredentialRow, provider: Provider, audience: str | None) -> CredentialRow | None:
        """Return the next version of a credential, renewed here or by another process.

        The row has a ``problem`` if the provider refuses for good; ``None`` if the user has disconnected. Raises
        ``TransientError`` if the provider cannot be reached.
        """
        lock = self._locks.setdefault(row.id, asyncio.Lock())
        async with lock:
            while True:
                current = await self._store.find(row.org, row.principal, row.server)
                if current is None or current.id != row.id or current.version != row.version or current.problem:
                    return current  # disconnected, connected again, or renewed by another call or process
                await self._client(provider).prepare()  # not under the lease, since it may take a while
                if await self._store.lease(row.id, row.version, now=self.time(), until=self.time(_LEASE_SECONDS)):
                    break
                await asyncio.sleep(_POLL_SECONDS)
            # In a task of its own: a caller that leaves must not lose a refresh token that has rotated.
            task = asyncio.create_task(self._renew_leased(current, provider, audience))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            renewed = await asyncio.shield(task)
            return renewed if renewed.problem is None else await self._latest(renewed)

    async def aclose(self) -> None:
        """Wait for the renewals that have begun."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def fail(self, row: CredentialRow, problem: str) -> CredentialRow:
        """Store why a credential cannot be used any more, unless it has changed since. Return the row."""
        failed = replace(row, problem=problem)
        await self._store.renew(row, failed)
        _log.warning("the credential %s of %s for %s: %s", row.id, row.principal, row.server, problem)
        return failed

    def expiry(self, answer: TokenAnswer) -> str | None:
        """Return the end of an access token by this process's clock; ``None`` if the provider does not state it."""
        return None if math.isinf(answer.seconds) else self.time(min(answer.seconds, _LONGEST_SECONDS))

    def time(self, seconds: float = 0.0) -> str:
        """Return the time in some seconds."""
        return iso(self._clock.time_ns() + round(seconds * 1e9))

    async def _store_renewed(
        self, row: CredentialRow, secret: CredentialSecret, scopes: tuple[str, ...], expires_at: str | None
    ) -> CredentialRow | None:
        """Store the next version, as ``Vault.renew`` does; try again, since the previous refresh token is spent."""
        for remaining in reversed(range(_STORE_TRIES)):
            try:
                return await self._vault.renew(row, secret, scopes=scopes, expires_at=expires_at)
            except StoreError as error:
                if not remaining:
                    raise
                _log.warning("the credential %s was renewed, and is not stored yet: %s", row.id, error)
                await asyncio.sleep(_STORE_SECONDS)
        raise AssertionError("the loop returns")

    async def _latest(self, row: CredentialRow) -> CredentialRow | None:
        """Return the stored row, which another process may have renewed although this one was refused."""
        return await self._store.find(row.org, row.principal, row.server)

    async def _renew_leased(self, row: CredentialRow, provider: Provider, audience: str | None) -> CredentialRow:
        try:
            secret = await self._vault.read(row)
            if secret.refresh is None:
                return await self.fail(row, "its token is not valid any more, and the provider gave no refresh token")
            answer = await self._client(provider).refresh(secret.refresh, audience)
        except TokenRefused as error:
            if error.reason in _OF_TOKEN:
                return await self.fail(row, f"the provider has refused to renew it ({error.reason})")
            await self._store.renew(row, row)  # which ends the lease
            raise TransientError(f"The connection to {provider.name} cannot be renewed: {error.message}") from None
        except CapsetError as error:
            with suppress(CapsetError):
                await self._store.renew(row, row)
            raise TransientError(f"The connection to {provider.name} cannot be renewed: {error.message}") from None
        renewed_secret = CredentialSecret(answer.access, answer.refresh or secret.refresh)
        scopes = row.scopes if answer.scopes is None else answer.scopes
        renewed = await self._store_renewed(row, renewed_secret, scopes, self.expiry(answer))
        if renewed is not None:
            return renewed
        if await self._latest(row) is None:  # providers revoke all tokens of a user together, also those of a new one
            with suppress(CapsetError):
                await self._client(provider).revoke(renewed_secret.refresh or renewed_secret.value)
        return replace(row, problem="it was disconnected")
