"""The API keys in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from capset.errors import StoreError
from capset.stores.base import Entry, KeyQuery, KeyRow, Page, SigningKey
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import page_of
from capset.stores.rows import is_renewed, renewed_keys


class MemoryKeys:
    """The keys, by id and by digest."""

    def __init__(self, door: Lifecycle) -> None:
        self._door = door
        self._rows: dict[str, KeyRow] = {}
        self._ids: dict[str, str] = {}  # by digest
        self._signing: Sequence[SigningKey] = ()

    async def create(self, row: KeyRow, *, act: Entry | None = None) -> None:
        """Store a new key. Raises ``StoreError`` if its id or digest is taken."""
        self._door.check()
        if row.id in self._rows or row.digest in self._ids:
            raise StoreError(f"there is a key {row.id!r} already")
        self._door.record(act)
        self._rows[row.id] = row
        self._ids[row.digest] = row.id

    async def find(self, digest: str) -> KeyRow | None:
        """Return the key with this digest, even if expired or revoked, or ``None``."""
        self._door.check()
        return self._rows.get(self._ids.get(digest, ""))

    async def get(self, id: str) -> KeyRow | None:
        """Return the key with this id, even if expired or revoked, or ``None``."""
        self._door.check()
        return self._rows.get(id)

    async def page(self, query: KeyQuery) -> Page[KeyRow]:
        """Return keys, newest first, including expired and revoked ones."""
        matching = [
            row
            for row in await self.list()
            if (query.org is None or row.org == (query.org or None))
            and query.principal in (None, row.principal)
            and (query.before is None or row.id < query.before)
        ]
        items, has_more = page_of(matching, query.limit, query.max_bytes)
        return Page(items, items[-1].id if has_more else None)

    async def list(self) -> list[KeyRow]:
        """Return every key, newest first."""
        self._door.check()
        return sorted(self._rows.values(), key=lambda row: row.id, reverse=True)

    async def any(self) -> bool:
        """Return whether any key exists, including expired and revoked ones."""
        self._door.check()
        return bool(self._rows)

    async def revoke(self, id: str, now: str, *, act: Entry | None = None) -> KeyRow | None:
        """Revoke a key unless it is revoked already, and return its current row, or ``None`` if it does not exist."""
        self._door.check()
        row = self._rows.get(id)
        if row is not None and row.revoked_at is None:
            self._door.record(act)
            row = self._rows[id] = replace(row, revoked_at=now)
        return row

    async def revoked(self, digests: Collection[str]) -> frozenset[str]:
        """Return the digests whose keys are revoked."""
        self._door.check()
        rows = (self._rows.get(self._ids.get(digest, "")) for digest in digests)
        return frozenset(row.digest for row in rows if row is not None and row.revoked_at is not None)

    async def signing_keys(self, *, now: str, renewed: str, expired: str) -> Sequence[SigningKey]:
        """Return the servers' signing keys, newest first. Creates one if the newest is too old."""
        self._door.check()
        if not is_renewed(self._signing, renewed):
            self._signing = renewed_keys(self._signing, now, expired)
        return tuple(self._signing)
