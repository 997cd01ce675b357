"""The protocol of API keys, and of the servers' signing keys (spec 5, P14, P39)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from capset.stores.base.audit import Entry
from capset.stores.base.pages import Page, Query


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One API key, without the key itself: ``digest`` is its SHA-256 in hexadecimal. Times are ISO 8601 UTC.

    ``permissions`` are those of the principal that uses the key, ``scopes`` the parts of the API that it may use.
    ``agent`` is the id of the agent that ``/mcp`` serves. ``attributes`` are those of the principal, and ``allowance``
    its limits, as serialised by ``definitions.allowances.Allowance``; both are JSON data. ``makers`` are the principals
    behind the key, as ``user:ada``: the one that created it, the one that created the key used for that, and so on;
    empty if it was created on the database.
    """

    id: str
    name: str
    digest: str
    org: str | None
    principal: str
    principal_kind: str
    permissions: tuple[str, ...]
    scopes: tuple[str, ...]
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    agent: str | None = None
    attributes: Mapping[str, Any] | None = None
    allowance: Mapping[str, Any] | None = None
    makers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A secret with which all servers of a store sign; ``key`` is 64 hexadecimal digits."""

    key: str
    made_at: str


@dataclass(frozen=True, slots=True)
class KeyQuery(Query):
    """A query for keys, newest first: of an ``org`` (``""``: without one, ``None``: any), and of a principal's id."""

    org: str | None
    principal: str | None = None


class KeyStore(Protocol):
    """The API keys of every org, and the signing keys of the servers."""

    async def create(self, row: KeyRow, *, act: Entry | None = None) -> None:
        """Store a new key. Raises ``StoreError`` if its id or digest is taken."""
        ...

    async def find(self, digest: str) -> KeyRow | None:
        """Return the key with this digest, even if expired or revoked, or ``None``."""
        ...

    async def get(self, id: str) -> KeyRow | None:
        """Return the key with this id, even if expired or revoked, or ``None``."""
        ...

    async def page(self, query: KeyQuery) -> Page[KeyRow]:
        """Return keys, newest first, even expired and revoked ones."""
        ...

    async def list(self) -> list[KeyRow]:
        """Return every key, newest first."""
        ...

    async def any(self) -> bool:
        """Whether there is any key, even an expired or revoked one."""
        ...

    async def revoke(self, id: str, now: str, *, act: Entry | None = None) -> KeyRow | None:
        """Revoke a key unless it is already revoked; return its current row, or ``None`` if there is no such key."""
        ...

    async def revoked(self, digests: Collection[str]) -> frozenset[str]:
        """Return the digests whose keys are revoked: one query for all clients with long-lived streams."""
        ...

    async def signing_keys(self, *, now: str, renewed: str, expired: str) -> Sequence[SigningKey]:
        """Return the servers' signing keys, newest first; at least one.

        If the newest key is from before ``renewed``, a new one is created, and keys from before ``expired`` are
        removed. Otherwise nothing is written.
        """
        ...
