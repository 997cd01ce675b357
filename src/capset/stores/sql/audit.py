"""The audit log: written by the one writer, read by keyset pages, verified row by row as it lies in the file."""

from __future__ import annotations

import secrets
from contextlib import closing
from typing import Any

from sqlalchemy import Connection, insert, select

from capset.definitions.records import COLUMNS, Record
from capset.errors import StoreError
from capset.fingerprint.chain import Verification, verify
from capset.stores.base import AuditPage, AuditQuery, Entry
from capset.stores.sql.rawrows import as_they_lie
from capset.stores.sql.reader import Reader
from capset.stores.sql.records import raw_records
from capset.stores.sql.tables import IS_OUTCOME, records, settings
from capset.stores.sql.writer import Writer

_FILTERS = ("id", "tool", "outcome", "principal", "session", "correlation")


class SqlAudit:
    """The append-only, hash-chained log of attempts (spec 4, G21–G23)."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    def append(self, entry: Entry) -> None:
        """Take an entry, to be written soon. Raises ``StoreError`` when too many wait already."""
        self._writer.append(entry)

    async def commit(self, entry: Entry) -> None:
        """Write an entry and return once it is durable. Raises ``StoreError`` if it is not."""
        await self._writer.commit(entry)

    async def flush(self) -> None:
        """Return once everything taken so far is durable. Raises ``StoreError`` if it is not."""
        await self._writer.flush()

    async def query(self, query: AuditQuery) -> AuditPage:
        """Return outcome records, newest first. Raises ``StoreError`` for one that was tampered with."""
        wanted = select(records).where(IS_OUTCOME).order_by(records.c.seq.desc()).limit(query.limit + 1)
        for name in _FILTERS:
            if (value := getattr(query, name)) is not None:
                wanted = wanted.where(records.c[name] == value)
        if query.org is not None:
            wanted = wanted.where(records.c.org == query.org if query.org else records.c.org.is_(None))
        if query.before is not None:
            wanted = wanted.where(records.c.seq < query.before)

        def read(connection: Connection) -> AuditPage:
            with as_they_lie(connection):
                # All at once: what a record is refused for would leave SQLite reading, and the next reader in the past.
                found = [_record(row) for row in connection.execute(wanted).mappings().all()]
            items = tuple(found[: query.limit])
            return AuditPage(items, items[-1].seq if len(found) > query.limit else None)

        return await self._reader.read(read)

    async def verify(self) -> Verification:
        """Check the whole chain, intents included."""

        def read(connection: Connection) -> Verification:
            with as_they_lie(connection), closing(raw_records(connection, "ORDER BY seq")) as rows:
                return verify(rows)

        return await self._reader.read(read)

    async def digest_key(self) -> bytes:
        """Return the 32 secret bytes that argument digests are keyed with, made once for a store."""

        def get_or_make(connection: Connection) -> str:
            asked = select(settings.c.value).where(settings.c.name == "digest_key")
            found = connection.execute(asked).scalar()
            if found is None:
                found = secrets.token_hex(32)
                connection.execute(insert(settings).values(name="digest_key", value=found))
            return found

        text = await self._writer.write(get_or_make)
        try:
            key = bytes.fromhex(text)
        except (TypeError, ValueError):
            key = b""
        if len(key) != 32:
            raise StoreError("the key of the argument digests is damaged", hint="restore a backup")
        return key


def _record(row: Any) -> Record:
    """Return a row, by column name, as a record. Raises ``StoreError`` if it holds what no record can hold."""
    for name in COLUMNS:
        expected = int if name in ("seq", "duration_us") else str
        if row[name] is not None and type(row[name]) is not expected:
            raise StoreError(
                f"record {row['seq']} was changed: its {name!r} is not what a record holds",
                hint="capset audit verify says more",
            )
    return Record(**row)
