"""The API keys."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from capset.errors import StoreError
from capset.stores.base import Entry, KeyQuery, KeyRow, Page, SigningKey
from capset.stores.rows import is_renewed, renewed_keys
from capset.stores.sql.reader import ReadConnections, read_rows
from capset.stores.sql.schema.tables import api_keys, settings
from capset.stores.sql.writer.writer import Writer

_SIGNING: Final = "signing_keys"
_BYTES: Final = 32
_NAMED: Final = 500  # per statement
_LISTS = ("permissions", "scopes", "makers")
_OBJECTS = ("attributes", "allowance")


class SqlKeys:
    """The keys, one row each."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader

    async def create(self, row: KeyRow, *, act: Entry | None = None) -> None:
        """Store a new key. Raises ``StoreError`` if its id or digest is taken."""
        values = asdict(row) | {name: json.dumps(getattr(row, name)) for name in _LISTS}
        values |= {name: json.dumps(values[name]) for name in _OBJECTS if values[name] is not None}

        def write(connection: Connection) -> bool:
            try:
                connection.execute(insert(api_keys).values(values))
            except IntegrityError as error:
                raise StoreError(f"there is a key {row.id!r} already") from error
            return True

        await self._writer.write(write, act)

    async def find(self, digest: str) -> KeyRow | None:
        """Return the key with this digest, even if expired or revoked, or ``None``."""
        return await self._one(api_keys.c.digest == digest)

    async def get(self, id: str) -> KeyRow | None:
        """Return the key with this id, even if expired or revoked, or ``None``."""
        return await self._one(api_keys.c.id == id)

    async def page(self, query: KeyQuery) -> Page[KeyRow]:
        """Return keys, newest first, including expired and revoked ones."""
        statement = select(api_keys).order_by(api_keys.c.id.desc())
        if query.org is not None:
            statement = statement.where(api_keys.c.org == query.org if query.org else api_keys.c.org.is_(None))
        if query.principal is not None:
            statement = statement.where(api_keys.c.principal == query.principal)
        if query.before is not None:
            statement = statement.where(api_keys.c.id < query.before)

        def read(connection: Connection) -> Page[KeyRow]:
            rows, has_more = read_rows(connection, statement, query.limit, query.max_bytes)
            items = tuple(map(key_row, rows))
            return Page(items, items[-1].id if has_more else None)

        return await self._reader.read(read)

    async def list(self) -> list[KeyRow]:
        """Return every key, newest first."""

        def read(connection: Connection) -> list[KeyRow]:
            rows = connection.execute(select(api_keys).order_by(api_keys.c.id.desc())).mappings()
            return [key_row(row) for row in rows]

        return await self._reader.read(read, is_one_statement=True)

    async def any(self) -> bool:
        """Return whether any key exists, including expired and revoked ones."""

        def read(connection: Connection) -> bool:
            return connection.execute(select(api_keys.c.id).limit(1)).first() is not None

        return await self._reader.read(read, is_one_statement=True)

    async def revoke(self, id: str, now: str, *, act: Entry | None = None) -> KeyRow | None:
        """Revoke a key unless it is revoked already, and return its current row, or ``None`` if it does not exist."""

        def write(connection: Connection) -> bool:
            open_key = (api_keys.c.id == id) & api_keys.c.revoked_at.is_(None)
            return bool(connection.execute(update(api_keys).where(open_key).values(revoked_at=now)).rowcount)

        await self._writer.write(write, act)
        return await self._one(api_keys.c.id == id)

    async def revoked(self, digests: Collection[str]) -> frozenset[str]:
        """Return the digests whose keys are revoked."""
        requested = [*digests]
        is_revoked = select(api_keys.c.digest).where(api_keys.c.revoked_at.is_not(None))

        def read(connection: Connection) -> frozenset[str]:
            some = (requested[start : start + _NAMED] for start in range(0, len(requested), _NAMED))
            parts = (connection.execute(is_revoked.where(api_keys.c.digest.in_(chunk))).scalars() for chunk in some)
            return frozenset(digest for part in parts for digest in part)

        return await self._reader.read(read, is_one_statement=len(requested) <= _NAMED)

    async def signing_keys(self, *, now: str, renewed: str, expired: str) -> Sequence[SigningKey]:
        """Return the servers' signing keys, newest first. Creates one if the newest is too old."""

        def write(connection: Connection) -> list[SigningKey]:
            keys = _signing_keys(connection)
            if not is_renewed(keys, renewed):
                keys = renewed_keys(keys, now, expired)
                connection.execute(delete(settings).where(settings.c.name == _SIGNING))
                value = json.dumps([asdict(key) for key in keys])
                connection.execute(insert(settings).values(name=_SIGNING, value=value))
            return keys

        keys = await self._reader.read(_signing_keys, is_one_statement=True)
        return keys if is_renewed(keys, renewed) else await self._writer.write(write)

    async def _one(self, at: ColumnElement[bool]) -> KeyRow | None:
        def read(connection: Connection) -> KeyRow | None:
            row = connection.execute(select(api_keys).where(at)).mappings().one_or_none()
            return key_row(row) if row else None

        return await self._reader.read(read, is_one_statement=True)


def _signing_keys(connection: Connection) -> list[SigningKey]:
    text = connection.execute(select(settings.c.value).where(settings.c.name == _SIGNING)).scalar()
    try:
        keys = [SigningKey(**entry) for entry in json.loads(text or "[]")]
        if all(len(bytes.fromhex(key.key)) == _BYTES for key in keys):
            return keys
    except (TypeError, ValueError):
        pass
    raise StoreError(
        "the signing keys are damaged", hint=f"delete the row {_SIGNING!r} of settings; servers make new keys"
    )


def key_row(mapping: RowMapping) -> KeyRow:
    """Convert a row of the table to a key."""
    values: dict[str, Any] = dict(mapping)
    values.update({name: tuple(json.loads(values[name])) for name in _LISTS})
    values.update({name: json.loads(values[name]) for name in _OBJECTS if values[name] is not None})
    return KeyRow(**values)
