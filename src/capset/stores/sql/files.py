"""The sessions' files: ``filetree``'s rules over rows in SQL, every operation one transaction (spec 5, P25)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, select

from capset.definitions.files import FileQuota, FileStat
from capset.errors import FileError
from capset.stores import file_tree as filetree
from capset.stores.base.files import STANDARD
from capset.stores.sql.filerows import Rows
from capset.stores.sql.reader import Reader
from capset.stores.sql.tables import sessions
from capset.stores.sql.writer import Writer

_HASHED_INLINE_BYTES: Final = 256 * 1024
"""Up to here, hashing is quicker than a thread."""


class SqlFiles:
    """The files of every session. Content is kept once by hash within an org."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def stat(self, session: str, path: str) -> FileStat | None:
        """Return what is at ``path``; the root is always there."""
        return await self._reader.read(lambda connection: filetree.stat(Rows(connection, session), path))

    async def read(self, session: str, path: str) -> tuple[FileStat, bytes]:
        """Return a file and its content. Raises ``FileError`` if there is none or it is a directory."""

        def read(connection: Connection) -> tuple[FileStat, bytes]:
            rows = Rows(connection, session)
            stat, _ = filetree.read(rows, path)
            return stat, rows.content(path)

        return await self._reader.read(read)

    async def write(
        self,
        session: str,
        path: str,
        content: bytes,
        *,
        org: str | None,
        now: str,
        version: int | None = None,
        quota: FileQuota = STANDARD,
    ) -> tuple[FileStat, bool]:
        """Create or replace a file, with its parents; return it and whether it is new.

        Raises ``FileError`` as ``filetree.write`` says, and if there is no such session.
        """
        digest = await _sha256(content)

        def write(connection: Connection) -> tuple[FileStat, bool]:
            if connection.execute(select(sessions.c.id).where(sessions.c.id == session)).first() is None:
                raise FileError("the session of these files was deleted", status=404)
            rows = Rows(connection, session, org or "", content)
            stat, old = filetree.write(
                rows, path, digest=digest, size=len(content), now=now, version=version, quota=quota
            )
            rows.let_go()
            return stat, old is None

        return await self._writer.write(write)

    async def list(self, session: str, path: str, *, recursive: bool) -> list[FileStat]:
        """Return a directory's entries: directories first, then by name; all below it by path when recursive."""
        return await self._reader.read(
            lambda connection: filetree.listing(Rows(connection, session), path, recursive=recursive)
        )

    async def delete(self, session: str, path: str, *, recursive: bool, version: int | None = None) -> int:
        """Delete and return how many entries went. Raises ``FileError`` as ``filetree.delete`` says."""

        def write(connection: Connection) -> int:
            rows = Rows(connection, session)
            gone = filetree.delete(rows, path, recursive=recursive, version=version)
            rows.let_go()
            return len(gone)

        return await self._writer.write(write)

    async def move(
        self,
        session: str,
        source: str,
        target: str,
        *,
        overwrite: bool,
        now: str,
        version: int | None = None,
        quota: FileQuota = STANDARD,
    ) -> FileStat:
        """Move a file or a whole directory, and return what is at ``target`` now.

        Raises ``FileError`` as ``filetree.move`` says.
        """

        def write(connection: Connection) -> FileStat:
            rows = Rows(connection, session)
            stat, _ = filetree.move(rows, source, target, overwrite=overwrite, now=now, version=version, quota=quota)
            rows.let_go()
            return stat

        return await self._writer.write(write)

    async def read_many(self, session: str, paths: Sequence[str]) -> Sequence[tuple[FileStat, bytes]]:
        """Return those of ``paths`` that are files, with their content, in the order given."""
        asked = tuple(paths)
        found = await self._reader.read(lambda connection: Rows(connection, session).contents(asked))
        return [found[path] for path in asked if path in found]


async def _sha256(content: bytes) -> str:
    if len(content) > _HASHED_INLINE_BYTES:
        return (await asyncio.to_thread(hashlib.sha256, content)).hexdigest()
    return hashlib.sha256(content).hexdigest()
