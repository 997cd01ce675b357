"""The protocol of credentials: those that users let the server use for them, encrypted (spec 11, V1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from capset.stores.base.audit import Entry
from capset.stores.base.pages import Page, Query

CredentialKind = Literal["key", "oauth"]
"""A key that a user has entered, or the tokens of an OAuth authorization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialRow:
    """The credential of one principal for one server; a principal has at most one for each.

    ``principal`` is ``kind:id``. ``sealed`` is the encrypted secret, in base64, which only its data key opens.
    ``binding`` is a digest of the address and the provider that it is for.
    ``version`` counts from 1, and increases with each renewal. ``expires_at`` is the end of an access token,
    ``lease_until`` that of the current attempt to renew it, and ``problem`` says why the last attempt failed for good.
    Times are ISO 8601 UTC with microseconds.
    """

    id: str
    org: str | None
    principal: str
    server: str
    kind: CredentialKind
    sealed: str = field(repr=False)
    data_key: str
    binding: str
    created_at: str
    renewed_at: str
    version: int = 1
    scopes: tuple[str, ...] = ()
    expires_at: str | None = None
    used_at: str | None = None
    lease_until: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class CredentialQuery(Query):
    """A query for the credentials of one org, newest first."""

    org: str | None
    principal: str | None = None
    server: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataKeyRow:
    """The key that encrypts the credentials of one org, itself encrypted by the vault's key ``wrapped_by``."""

    id: str
    org: str | None
    wrapped: str = field(repr=False)
    wrapped_by: str
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationRow:
    """An authorization that a principal has begun at a provider. ``id`` is the hash of the ``state`` parameter.

    ``sealed`` is the encrypted PKCE verifier, and ``redirect_uri`` the address to which the provider returns.
    """

    id: str
    org: str | None
    principal: str
    server: str
    sealed: str = field(repr=False)
    data_key: str
    redirect_uri: str
    created_at: str
    expires_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationRow:
    """The use of a credential that its owner allows another principal that acts for it.

    ``principal`` is the owner and ``delegate`` the other one, both ``kind:id``. ``tools`` are the names of the tools,
    or empty for all; ``arguments`` is the JSON text of the allowed arguments, by tool rules (``ToolRules.arguments``),
    or ``None`` for any; ``expires_at`` is the end, or ``None``.
    """

    id: str
    org: str | None
    principal: str
    server: str
    delegate: str
    tools: tuple[str, ...]
    arguments: str | None
    expires_at: str | None
    created_at: str


@dataclass(frozen=True, slots=True)
class DelegationQuery(Query):
    """A query for the delegations of one principal, newest first."""

    org: str | None
    principal: str
    server: str | None = None
    delegate: str | None = None


class CredentialStore(Protocol):
    """The credentials of every org, the keys that encrypt them, what they may be used for, and open authorizations."""

    async def put(self, row: CredentialRow, *, act: Entry | None = None) -> None:
        """Store a credential. It replaces the one that the principal has for the server, if any."""
        ...

    async def find(self, org: str | None, principal: str, server: str) -> CredentialRow | None:
        """Return the credential of a principal for a server, or ``None``."""
        ...

    async def get(self, org: str | None, id: str) -> CredentialRow | None:
        """Return a credential of an org, or ``None``."""
        ...

    async def list(self, query: CredentialQuery) -> Page[CredentialRow]:
        """Return credentials, newest first."""
        ...

    async def lease(self, id: str, version: int, *, now: str, until: str) -> bool:
        """Reserve the renewal of this version until a time. Return ``False`` if another process has reserved it."""
        ...

    async def renew(self, previous: CredentialRow, then: CredentialRow) -> bool:
        """Store a renewed credential without a lease, if ``previous`` is still the stored version. Return whether."""
        ...

    async def mark_used(self, id: str, at: str) -> None:
        """Store when a credential was last used."""
        ...

    async def remove(self, org: str | None, id: str, *, act: Entry | None = None) -> bool:
        """Delete a credential of an org and its delegations; return whether there was one."""
        ...

    async def add_delegation(self, row: DelegationRow, *, act: Entry | None = None) -> None:
        """Store a delegation."""
        ...

    async def delegations(self, query: DelegationQuery) -> Page[DelegationRow]:
        """Return delegations of a principal, newest first; also those that have expired."""
        ...

    async def remove_delegation(self, org: str | None, principal: str, id: str, *, act: Entry | None = None) -> bool:
        """Delete a delegation of a principal; return whether there was one."""
        ...

    async def add_data_key(self, row: DataKeyRow) -> DataKeyRow:
        """Store the data key of an org, and return the one that is stored: another process may have been faster."""
        ...

    async def data_key(self, org: str | None) -> DataKeyRow | None:
        """Return the data key of an org, or ``None``."""
        ...

    async def data_keys(self) -> Sequence[DataKeyRow]:
        """Return the data keys of every org, sorted by id."""
        ...

    async def rewrap(self, previous: DataKeyRow, then: DataKeyRow) -> bool:
        """Replace a wrapped data key, if ``previous`` is still what is stored. Return whether it was replaced."""
        ...

    async def begin_authorization(self, row: AuthorizationRow) -> None:
        """Store an authorization, and delete those that have expired by its ``created_at``."""
        ...

    async def take_authorization(self, id: str, *, now: str) -> AuthorizationRow | None:
        """Delete an authorization and return it; ``None`` if there is none, or it has expired."""
        ...
