"""The protocol of the API keys, and of the servers' signing keys (spec 5, P14, P39)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from capset.stores.base.audit import Entry
from capset.stores.base.pages import Page, Query


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One API key, without the key: ``digest`` is its SHA-256 in hexadecimal. Times are ISO 8601 UTC.

    ``permissions`` are those of the principal that acts by it, ``scopes`` the parts of the API that it may use.
    ``agent`` is the id of the agent that ``/mcp`` serves. ``attributes`` are those of the principal, and ``allowance``
    its limits, as ``definitions.allowances.Allowance`` writes them; both are JSON data. ``makers`` are the principals
    who made the key, and who made theirs, as ``user:ada``, the nearest first; none if it was made on the database.
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
    """A secret that all servers of a store sign with; ``key`` is 64 hexadecimal digits."""

    key: str
    made_at: str


@dataclass(frozen=True, slots=True)
class KeyQuery(Query):
    """A query for keys, newest first: of an ``org`` (``""``: of none, ``None``: of all), and of a principal's id."""

    org: str | None
    principal: str | None = None


class KeyStore(Protocol):
    """The API keys of every org, and the servers' own signing keys."""

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
        """Revoke a key, unless that is done, and return its current row; ``None`` if there is none."""
        ...

    async def revoked(self, digests: Collection[str]) -> frozenset[str]:
        """Return those of these digests whose keys are revoked: one look for all who follow something for long."""
        ...

    async def signing_keys(self, *, now: str, renewed: str, expired: str) -> Sequence[SigningKey]:
        """Return the servers' signing keys, newest first; at least one.

        A new one is made unless the newest was made at ``renewed`` or later. With that, those from before ``expired``
        are removed. Only then is anything written.
        """
        ...
