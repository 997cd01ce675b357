"""The vault: credentials of users by principal, org and server, encrypted in the store (spec 11, V1–V3)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from pydantic_core import from_json, to_json

from capset.clock import Clock, iso
from capset.errors import StoreError
from capset.ids import Ids
from capset.stores.base import AuthorizationRow, CredentialKind, CredentialRow, DataKeyRow, Entry, Store
from capset_connect.vault.encryption import VaultKeys, context_of, decrypt, encrypt, new_data_key
from capset_connect.vault.providers import AuthorizationStart

_CACHED_KEYS: Final = 1_000
"""The maximum number of orgs whose data keys are cached in this process."""


@dataclass(frozen=True, slots=True)
class CredentialOwner:
    """The principal (``kind:id``) that a credential belongs to, its org, and the server that it is for."""

    org: str | None
    principal: str
    server: str


@dataclass(frozen=True, slots=True)
class CredentialSecret:
    """The secret part of a credential: a key or an access token, and the refresh token, if there is one."""

    value: str = field(repr=False)
    refresh: str | None = field(default=None, repr=False)


class Vault:
    """The credentials in a store. ``keys`` wrap the data keys."""

    def __init__(self, store: Store, keys: VaultKeys, clock: Clock, ids: Ids) -> None:
        self._store = store.credentials
        self._keys = keys
        self._clock = clock
        self._ids = ids
        self._data_keys: OrderedDict[str, bytes] = OrderedDict()

    async def put(
        self,
        owner: CredentialOwner,
        kind: CredentialKind,
        secret: CredentialSecret,
        *,
        binding: str,
        scopes: tuple[str, ...] = (),
        expires_at: str | None = None,
        act: Entry | None = None,
    ) -> CredentialRow:
        """Store a credential, encrypted, and return its row. It replaces the one that the owner has, if any."""
        key_id, key = await self._current_data_key(owner.org)
        now = iso(self._clock.time_ns())
        row = CredentialRow(
            id=self._ids.new(),
            org=owner.org,
            principal=owner.principal,
            server=owner.server,
            kind=kind,
            sealed="",
            data_key=key_id,
            binding=binding,
            created_at=now,
            renewed_at=now,
            scopes=scopes,
            expires_at=expires_at,
        )
        row = _sealed(row, secret, key)
        await self._store.put(row, act=act)
        return row

    async def read(self, row: CredentialRow) -> CredentialSecret:
        """Decrypt a credential. Raises ``StoreError`` if it was changed, or the vault's key is missing."""
        key = await self._data_key(row.org, row.data_key)
        plain = from_json(decrypt(key, row.sealed, _context(row)))
        return CredentialSecret(plain["value"], plain.get("refresh"))

    async def renew(
        self, row: CredentialRow, secret: CredentialSecret, *, scopes: tuple[str, ...], expires_at: str | None
    ) -> CredentialRow | None:
        """Store the next version of a credential and return it; ``None`` if it was replaced or removed since."""
        key_id, key = await self._current_data_key(row.org)
        renewed = replace(
            row,
            version=row.version + 1,
            data_key=key_id,
            renewed_at=iso(self._clock.time_ns()),
            scopes=scopes,
            expires_at=expires_at,
            problem=None,
        )
        renewed = _sealed(renewed, secret, key)
        return renewed if await self._store.renew(row, renewed) else None

    async def begin(
        self, owner: CredentialOwner, start: AuthorizationStart, *, binding: str, redirect_uri: str, seconds: float
    ) -> None:
        """Store an authorization that its ``state`` completes within some seconds, with its PKCE verifier encrypted."""
        key_id, key = await self._current_data_key(owner.org)
        now = self._clock.time_ns()
        await self._store.begin_authorization(
            AuthorizationRow(
                id=state_hash(start.state),
                org=owner.org,
                principal=owner.principal,
                server=owner.server,
                sealed=encrypt(key, start.verifier.encode(), _authorization_context(owner, start.state, binding)),
                data_key=key_id,
                redirect_uri=redirect_uri,
                created_at=iso(now),
                expires_at=iso(now + round(seconds * 1e9)),
            )
        )

    async def take(self, state: str) -> AuthorizationRow | None:
        """Return an authorization that has begun, once; ``None`` if it was taken or has expired."""
        return await self._store.take_authorization(state_hash(state), now=iso(self._clock.time_ns()))

    async def verifier_of(self, row: AuthorizationRow, state: str, *, binding: str) -> str:
        """Return the PKCE verifier of an authorization. Raises ``StoreError`` for another binding than at its begin."""
        owner = CredentialOwner(row.org, row.principal, row.server)
        key = await self._data_key(row.org, row.data_key)
        return decrypt(key, row.sealed, _authorization_context(owner, state, binding)).decode()

    async def check(self) -> None:
        """Raise ``StoreError`` if a data key in the store cannot be unwrapped by the keys that this process has."""
        for row in await self._store.data_keys():
            await self._unwrap(row)

    async def rotate(self) -> int:
        """Wrap every data key by the current key. Return how many were wrapped by another before."""
        count = 0
        for row in await self._store.data_keys():
            if row.wrapped_by != self._keys.current:
                wrapped = await self._keys.wrap(await self._unwrap(row), _key_context(row.org, row.id))
                count += await self._store.rewrap(row, replace(row, wrapped=wrapped, wrapped_by=self._keys.current))
        return count

    async def _current_data_key(self, org: str | None) -> tuple[str, bytes]:
        """Return the id and the data key of an org, which is created if there is none."""
        row = await self._store.data_key(org)
        if row is None:
            key_id = self._ids.new()
            wrapped = await self._keys.wrap(new_data_key(), _key_context(org, key_id))
            row = await self._store.add_data_key(
                DataKeyRow(
                    id=key_id,
                    org=org,
                    wrapped=wrapped,
                    wrapped_by=self._keys.current,
                    created_at=iso(self._clock.time_ns()),
                )
            )
        return row.id, await self._cached(row)

    async def _data_key(self, org: str | None, id: str) -> bytes:
        if (key := self._data_keys.get(id)) is not None:
            self._data_keys.move_to_end(id)
            return key
        row = await self._store.data_key(org)
        if row is None or row.id != id:
            raise StoreError(f"the data key {id} of a credential in the vault is missing")
        return await self._cached(row)

    async def _cached(self, row: DataKeyRow) -> bytes:
        if (key := self._data_keys.get(row.id)) is None:
            key = self._data_keys[row.id] = await self._unwrap(row)
            if len(self._data_keys) > _CACHED_KEYS:
                self._data_keys.popitem(last=False)
        return key

    async def _unwrap(self, row: DataKeyRow) -> bytes:
        return await self._keys.unwrap(row.wrapped, row.wrapped_by, _key_context(row.org, row.id))


def _sealed(row: CredentialRow, secret: CredentialSecret, key: bytes) -> CredentialRow:
    plain = to_json({"value": secret.value, "refresh": secret.refresh})
    return replace(row, sealed=encrypt(key, plain, _context(row)))


def _context(row: CredentialRow) -> bytes:
    return context_of("credential", row.org, row.principal, row.server, row.binding, row.id, row.version)


def _key_context(org: str | None, id: str) -> bytes:
    return context_of("data key", org, id)


def _authorization_context(owner: CredentialOwner, state: str, binding: str) -> bytes:
    return context_of("authorization", owner.org, owner.principal, owner.server, binding, state_hash(state))


def state_hash(state: str) -> str:
    """Return the id under which the authorization with a ``state`` is stored, which does not reveal the state."""
    return sha256(b"capset authorization\0" + state.encode(errors="surrogatepass")).hexdigest()
