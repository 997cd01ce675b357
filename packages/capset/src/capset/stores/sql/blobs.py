"""The content of files, stored once per SHA-256 within an org: small content in one row, large content in parts.

Each part is written in its own transaction, since a transaction blocks all other writes to the database (ADR 0042).
Parts are loose until their file is written, and loose parts are kept for a limited time only. Then they are removed, a
few per transaction. This removes the parts of writers that died, and those of deleted files.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO, Final

from sqlalchemy import Connection, RowMapping, delete, exists, insert, select, update

from capset.clock import iso
from capset.errors import StoreError
from capset.ids import Ids
from capset.stores.base.files import sha256_of
from capset.stores.sql.inserts import batches
from capset.stores.sql.reader import ReadConnections
from capset.stores.sql.schema.tables import blob_parts, blobs, files, loose_parts
from capset.stores.sql.writer.writer import Writer

PART_BYTES: Final = 1024 * 1024
"""Size of every part but the last. Content up to this size is one row."""


@dataclass(frozen=True, slots=True)
class Blob:
    """Content and its digest. ``loose`` is the id of its loose parts if it is large."""

    file: BinaryIO
    size: int
    digest: str
    loose: str | None = None

    def read(self, start: int, size: int) -> bytes:
        """Return a part of the content."""
        self.file.seek(start)
        return self.file.read(size)


def store_blob(connection: Connection, org: str, blob: Blob) -> dict[str, str | None]:
    """Store missing content, mark its parts as no longer loose, and return its columns for a row of ``files``."""
    if blob.loose is None:
        key = {"org": org, "digest": blob.digest}
        if connection.execute(select(blobs.c.digest).filter_by(**key)).first() is None:
            connection.execute(insert(blobs).values(**key, size=blob.size, content=blob.read(0, blob.size)))
        return {"digest": blob.digest, "parts": None}
    for number in _part_numbers(0, blob.size):  # no part is missing, unless writing took too long
        _store_part(connection, org, blob, number)
    connection.execute(delete(loose_parts).where(loose_parts.c.id == blob.loose))
    return {"digest": None, "parts": blob.digest}


def _part_numbers(start: int, stop: int) -> range:
    """Return the numbers of the parts that hold the bytes from ``start`` to ``stop``."""
    return range(start // PART_BYTES, -(-stop // PART_BYTES))


def _store_part(connection: Connection, org: str, blob: Blob, number: int) -> None:
    key = {"org": org, "digest": blob.digest, "number": number}
    if connection.execute(select(blob_parts.c.number).filter_by(**key)).first() is None:
        part = blob.read(number * PART_BYTES, PART_BYTES)
        connection.execute(insert(blob_parts).values(**key, content=part))


def read_parts(connection: Connection, org: str, digest: str, start: int, stop: int) -> bytes:
    """Return the bytes ``start`` to ``stop`` of content in parts. Raises ``StoreError`` if some are missing."""
    content = BytesIO()
    parts = select(blob_parts.c.content).filter_by(org=org, digest=digest)
    for number in _part_numbers(start, stop):  # one at a time: PostgreSQL's driver would hold all in memory, twice
        first = number * PART_BYTES
        part = connection.execute(parts.filter_by(number=number)).scalar_one_or_none() or b""
        content.write(part[max(start - first, 0) : stop - first])
    if content.tell() != max(stop - start, 0):
        raise StoreError(
            f"only {content.tell():,} of {stop - start:,} bytes of the content {digest} are in the database",
            hint="restore a backup",
        )
    return content.getvalue()


def remove_blobs(connection: Connection, freed: Collection[tuple[str, str]]) -> None:
    """Remove content that is one row, given by org and digest, unless a file of any session refers to it."""
    referring = exists().where(files.c.org == blobs.c.org, files.c.digest == blobs.c.digest)
    for org, of_org in groupby(sorted(freed), key=itemgetter(0)):
        digests = [digest for _, digest in of_org]
        for batch in batches(digests):
            connection.execute(delete(blobs).where(blobs.c.org == org, blobs.c.digest.in_(batch), ~referring))


def _is_referred(connection: Connection, org: str, digest: str) -> bool:
    return connection.execute(select(files.c.path).filter_by(org=org, parts=digest).limit(1)).first() is not None


class PartStore:
    """Writes and deletes large files in parts, so that no transaction takes long."""

    def __init__(self, writer: Writer, reader: ReadConnections) -> None:
        self._writer = writer
        self._reader = reader
        self._ids = Ids()
        self._has_freed = False

    @asynccontextmanager
    async def stored(self, org: str, file: BinaryIO, size: int) -> AsyncGenerator[Blob]:
        """Yield content for ``store_blob``. Parts of large content are stored first, and removed if the block fails."""
        blob = Blob(file, size, await _sha256(file, size))
        existing = select(blobs.c.digest).filter_by(org=org, digest=blob.digest)
        if size <= PART_BYTES or await self._reader.read(lambda connection: connection.execute(existing).first()):
            yield blob
            return
        blob = replace(blob, loose=self._ids.new())
        try:
            await self._store(org, blob)
            yield blob
        except BaseException:
            await asyncio.shield(self._discard(blob))
            raise

    async def _store(self, org: str, blob: Blob) -> None:
        # After an hour their writer is taken for dead. A slow writer writes removed parts again.
        until = iso(time.time_ns() + 3_600 * 1_000_000_000)
        row = insert(loose_parts).values(id=blob.loose, org=org, digest=blob.digest, until=until)
        await self._writer.write(lambda connection: connection.execute(row).rowcount)
        stored = select(blob_parts.c.number).filter_by(org=org, digest=blob.digest)
        stored_numbers = await self._reader.read(lambda connection: connection.execute(stored).scalars().all())
        for number in sorted({*_part_numbers(0, blob.size)}.difference(stored_numbers)):
            await self._writer.write(partial(_store_part, org=org, blob=blob, number=number))

    async def _discard(self, blob: Blob) -> None:
        expired = update(loose_parts).where(loose_parts.c.id == blob.loose).values(until="")
        with contextlib.suppress(StoreError):  # they expire later
            if await self._writer.write(lambda connection: connection.execute(expired).rowcount):
                await self.sweep()

    def mark_loose(self, connection: Connection, freed: Collection[tuple[str, str]]) -> None:
        """Mark parts, given by org and digest, as loose unless a file of any session refers to them."""
        for org, digest in sorted(freed):
            if not _is_referred(connection, org, digest):
                connection.execute(insert(loose_parts).values(id=self._ids.new(), org=org, digest=digest, until=""))
                self._has_freed = True

    async def sweep_freed(self) -> None:
        """Remove the parts that were freed since the last call."""
        if self._has_freed:
            self._has_freed = False
            await self.sweep()

    async def sweep(self) -> None:
        """Remove expired loose parts, a thousand at most. If the database fails, the rest is left to a later call."""
        expired = loose_parts.c.until < iso(time.time_ns())
        old = select(loose_parts).where(expired).order_by(loose_parts.c.until).limit(1_000)
        with contextlib.suppress(StoreError):
            for loose in await self._reader.read(lambda connection: connection.execute(old).mappings().all()):
                while not await self._writer.write(partial(_remove_some, loose=loose)):
                    pass


async def _sha256(file: BinaryIO, size: int) -> str:
    # Up to 256 KiB, hashing is faster than handing it to a thread.
    return sha256_of(file) if size <= 256 * 1024 else await asyncio.to_thread(sha256_of, file)


def _remove_some(connection: Connection, loose: RowMapping) -> bool:
    """Remove some loose parts. Return whether this is complete: no part is left, or the rest is still needed."""
    maximum = 8
    key = {"org": loose["org"], "digest": loose["digest"]}
    others = select(loose_parts.c.id).filter_by(**key).where(loose_parts.c.until > loose["until"])
    if not _is_referred(connection, **key) and connection.execute(others).first() is None:
        statement = select(blob_parts.c.number).filter_by(**key).limit(maximum)
        numbers = connection.execute(statement).scalars().all()
        connection.execute(delete(blob_parts).filter_by(**key).where(blob_parts.c.number.in_(numbers)))
        if len(numbers) == maximum:
            return False
    connection.execute(delete(loose_parts).where(loose_parts.c.id == loose["id"]))
    return True
