"""The API keys."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from capset.errors import StoreError
from capset.stores.base import Entry, KeyQuery, KeyRow, Page, SigningKey
from capset.stores.pages import filters_of
from capset.stores.rows import id_taken_error, is_renewed, renewed_keys
from capset.stores.sql.inserts import MAX_BATCH, batches
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import api_keys, settings
from capset.stores.sql.writer.writer import Writer

_SIGNING_KEYS: Final = "signing_keys"
_LISTS = ("permissions", "scopes", "makers")
_OBJECTS = ("attributes", "allowance")


class SqlKeys:
    """The keys, one row each."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def create(self, row: KeyRow, *, act: Entry | None = None) -> None:
        values = asdict(row) | {name: json.dumps(getattr(row, name)) for name in _LISTS}
        values |= {name: json.dumps(values[name]) for name in _OBJECTS if values[name] is not None}

        def write(connection: Connection) -> bool:
            try:
                connection.execute(insert(api_keys).values(values))
            except IntegrityError as error:
                raise id_taken_error("a key", row.id) from error
            return True

        await self._writer.write(write, act)

    async def find(self, digest: str) -> KeyRow | None:
        return await self._reader.read_one(select(api_keys).where(api_keys.c.digest == digest), key_row)

    async def get(self, id: str) -> KeyRow | None:
        return await self._reader.read_one(select(api_keys).where(api_keys.c.id == id), key_row)

    async def page(self, query: KeyQuery) -> Page[KeyRow]:
        statement = select(api_keys).filter_by(**filters_of(query, ("principal",)))
        if query.org is not None:
            statement = statement.where(api_keys.c.org == query.org if query.org else api_keys.c.org.is_(None))
        return await self._reader.read_page(statement, query, key_row)

    async def list(self) -> list[KeyRow]:
        return await self._reader.read_all(select(api_keys).order_by(api_keys.c.id.desc()), key_row)

    async def any(self) -> bool:
        return await self._reader.has_rows(select(api_keys.c.id))

    async def revoke(self, id: str, now: str, *, act: Entry | None = None) -> KeyRow | None:
        def write(connection: Connection) -> bool:
            open_key = (api_keys.c.id == id) & api_keys.c.revoked_at.is_(None)
            return bool(connection.execute(update(api_keys).where(open_key).values(revoked_at=now)).rowcount)

        await self._writer.write(write, act)
        return await self.get(id)

    async def revoked(self, digests: Collection[str]) -> frozenset[str]:
        requested = [*digests]
        revoked = select(api_keys.c.digest).where(api_keys.c.revoked_at.is_not(None))

        def read(connection: Connection) -> frozenset[str]:
            results = (connection.execute(revoked.where(api_keys.c.digest.in_(batch))) for batch in batches(requested))
            return frozenset(digest for result in results for digest in result.scalars())

        return await self._reader.read(read, is_one_statement=len(requested) <= MAX_BATCH)

    async def signing_keys(self, *, now: str, renewed: str, expired: str) -> Sequence[SigningKey]:
        def write(connection: Connection) -> list[SigningKey]:
            keys = _signing_keys(connection)
            if not is_renewed(keys, renewed):
                keys = renewed_keys(keys, now, expired)
                connection.execute(delete(settings).where(settings.c.name == _SIGNING_KEYS))
                value = json.dumps([asdict(key) for key in keys])
                connection.execute(insert(settings).values(name=_SIGNING_KEYS, value=value))
            return keys

        keys = await self._reader.read(_signing_keys, is_one_statement=True)
        return keys if is_renewed(keys, renewed) else await self._writer.write(write)


def _signing_keys(connection: Connection) -> list[SigningKey]:
    text = connection.execute(select(settings.c.value).where(settings.c.name == _SIGNING_KEYS)).scalar()
    try:
        keys = [SigningKey(**entry) for entry in json.loads(text or "[]")]
        if all(len(bytes.fromhex(key.key)) == 32 for key in keys):
            return keys
    except (TypeError, ValueError):
        pass
    raise StoreError(
        "the signing keys are damaged", hint=f"delete the row {_SIGNING_KEYS!r} of settings; servers make new keys"
    )


def key_row(mapping: RowMapping) -> KeyRow:
    """Convert a row of the table to a key."""
    values: dict[str, Any] = dict(mapping)
    values.update({name: tuple(json.loads(values[name])) for name in _LISTS})
    values.update({name: json.loads(values[name]) for name in _OBJECTS if values[name] is not None})
    return KeyRow(**values)
