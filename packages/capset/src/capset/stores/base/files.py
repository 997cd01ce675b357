"""The protocol of the sessions' files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from io import BytesIO
from typing import BinaryIO, Final, Protocol

from capset.definitions.calls.files import FileQuota, FileStat
from capset.stores.base.audit import Entry

STANDARD: Final = FileQuota()
"""The default quota of a session."""


def open_content(content: bytes | BinaryIO) -> BinaryIO:
    """Return content as an open file, at its beginning."""
    file = BytesIO(content) if isinstance(content, bytes | bytearray) else content
    file.seek(0)
    return file


def sha256_of(file: BinaryIO) -> str:
    """Return the SHA-256 of an open file, from its beginning, in hexadecimal."""
    file.seek(0)
    digest = hashlib.sha256()
    while part := file.read(1 << 20):
        digest.update(part)
    return digest.hexdigest()


class FileStore(Protocol):
    """The files of all sessions. Paths are normalised already; ``now`` is ISO 8601 UTC.

    Content is stored once by hash within an org. Every method is one transaction. ``FileError`` is raised as in
    ``definitions.files.Files``.
    """

    async def stat(self, session: str, path: str) -> FileStat | None:
        """Return the entry at ``path``; the root always exists."""
        ...

    async def read(self, session: str, path: str, *, start: int = 0, size: int | None = None) -> tuple[FileStat, bytes]:
        """Return a file and at most ``size`` bytes of its content from ``start`` on; without ``size``, all of these."""
        ...

    async def digest(self, session: str, path: str) -> tuple[FileStat, str]:
        """Return a file and the SHA-256 of its content, as hex, without its content. Raises as ``read`` does."""
        ...

    async def write(
        self,
        session: str,
        path: str,
        content: bytes | BinaryIO,
        *,
        org: str | None,
        now: str,
        version: int | None = None,
        quota: FileQuota = STANDARD,
        act: Entry | None = None,
    ) -> tuple[FileStat, bool]:
        """Create or replace a file, with its parents; return it and whether it is new.

        ``content`` may be an open file, which is read from its beginning, in parts.

        With ``version``, only if the file has exactly this one, or if there is none and it is 0; otherwise raises
        ``VersionMismatch``. Raises ``QuotaExceeded`` for more than ``quota`` allows, concurrent writers included, and
        ``FileError`` if there is no such session, or no longer.
        """
        ...

    async def list(self, session: str, path: str, *, recursive: bool) -> list[FileStat]:
        """Return a directory's entries: directories first, then by name; all below it by path when recursive."""
        ...

    async def delete(
        self, session: str, path: str, *, recursive: bool, version: int | None = None, act: Entry | None = None
    ) -> int:
        """Delete and return the number of deleted entries. ``version`` is as for ``write``."""
        ...

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
        """Move a file or a whole directory, and return the entry at ``target``. ``version`` is the source's."""
        ...

    async def read_many(self, session: str, paths: Sequence[str]) -> Sequence[tuple[FileStat, bytes]]:
        """Return the files among ``paths`` with their content, in the given order."""
        ...
