"""The API keys in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from capset.stores.base import Entry, KeyQuery, KeyRow, Page, SigningKey
from capset.stores.memory.lifecycle import Lifecycle
from capset.stores.pages import filters_of, page_by_id
from capset.stores.rows import id_taken_error, is_renewed, renewed_keys


class MemoryKeys:
    """The keys, by id and by digest."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._rows: dict[str, KeyRow] = {}
        self._ids: dict[str, str] = {}  # by digest
        self._signing: Sequence[SigningKey] = ()

    async def create(self, row: KeyRow, *, act: Entry | None = None) -> None:
        self._lifecycle.check()
        if row.id in self._rows or row.digest in self._ids:
            raise id_taken_error("a key", row.id)
        self._lifecycle.record(act)
        self._rows[row.id] = row
        self._ids[row.digest] = row.id

    async def find(self, digest: str) -> KeyRow | None:
        self._lifecycle.check()
        return self._rows.get(self._ids.get(digest, ""))

    async def get(self, id: str) -> KeyRow | None:
        self._lifecycle.check()
        return self._rows.get(id)

    async def page(self, query: KeyQuery) -> Page[KeyRow]:
        self._lifecycle.check()
        filters = filters_of(query, ("principal",))
        if query.org is not None:
            filters["org"] = query.org or None
        return page_by_id(self._rows.values(), query, filters)

    async def list(self) -> list[KeyRow]:
        self._lifecycle.check()
        return sorted(self._rows.values(), key=lambda row: row.id, reverse=True)

    async def any(self) -> bool:
        self._lifecycle.check()
        return bool(self._rows)

    async def revoke(self, id: str, now: str, *, act: Entry | None = None) -> KeyRow | None:
        self._lifecycle.check()
        row = self._rows.get(id)
        if row is not None and row.revoked_at is None:
            self._lifecycle.record(act)
            row = self._rows[id] = replace(row, revoked_at=now)
        return row

    async def revoked(self, digests: Collection[str]) -> frozenset[str]:
        self._lifecycle.check()
        rows = (self._rows.get(self._ids.get(digest, "")) for digest in digests)
        return frozenset(row.digest for row in rows if row is not None and row.revoked_at is not None)

    async def signing_keys(self, *, now: str, renewed: str, expired: str) -> Sequence[SigningKey]:
        self._lifecycle.check()
        if not is_renewed(self._signing, renewed):
            self._signing = renewed_keys(self._signing, now, expired)
        return tuple(self._signing)
