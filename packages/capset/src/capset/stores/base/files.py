"""The protocol of session files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from io import BytesIO
from typing import BinaryIO, Final, Protocol

from capset.definitions.calls.files import FileQuota, FileStat
from capset.stores.base.audit import Entry

DEFAULT_QUOTA: Final = FileQuota()
"""The default quota of a session."""


def open_content(content: bytes | BinaryIO) -> BinaryIO:
    """Return content as an open file, at its beginning."""
    file = BytesIO(content) if isinstance(content, bytes | bytearray) else content
    file.seek(0)
    return file


def sha256_of(file: BinaryIO) -> str:
    """Return the SHA-256 of the whole content of an open file, in hexadecimal."""
    file.seek(0)
    digest = hashlib.sha256()
    while part := file.read(1 << 20):
        digest.update(part)
    return digest.hexdigest()


class FileStore(Protocol):
    """The files of all sessions. Callers pass normalised paths, and ``now`` as ISO 8601 UTC.

    Equal content is stored once within an org. Every method is one transaction. ``FileError`` is raised as in
    ``definitions.files.Files``.
    """

    async def stat(self, session: str, path: str) -> FileStat | None:
        """Return the entry at ``path``. The root always exists."""
        ...

    async def read(self, session: str, path: str, *, start: int = 0, size: int | None = None) -> tuple[FileStat, bytes]:
        """Return a file and its content from ``start`` on: at most ``size`` bytes, or all of them without ``size``."""
        ...

    async def digest(self, session: str, path: str) -> tuple[FileStat, str]:
        """Return a file and the SHA-256 of its content in hexadecimal. Raises as ``read`` does."""
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
        quota: FileQuota = DEFAULT_QUOTA,
        act: Entry | None = None,
    ) -> tuple[FileStat, bool]:
        """Create or replace a file, and create its parents; return it and whether it is new.

        ``content`` may be an open file, which is read from its beginning, in parts. If ``version`` is given, raises
        ``VersionMismatch`` unless the file has exactly this version, or ``version`` is 0 and there is no file. Raises
        ``QuotaExceeded`` if ``quota`` would be exceeded, even with concurrent writers, and ``FileError`` if the session
        does not exist or no longer exists.
        """
        ...

    async def list(self, session: str, path: str, *, recursive: bool) -> list[FileStat]:
        """Return a directory's entries: directories first, then by name; if ``recursive``, all below it, by path."""
        ...

    async def delete(
        self, session: str, path: str, *, recursive: bool, version: int | None = None, act: Entry | None = None
    ) -> int:
        """Delete an entry, and return the number of deleted entries. ``version`` is as for ``write``."""
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
        quota: FileQuota = DEFAULT_QUOTA,
    ) -> FileStat:
        """Move a file or a whole directory, and return the entry at ``target``. ``version`` is that of the source."""
        ...

    async def read_many(self, session: str, paths: Sequence[str]) -> Sequence[tuple[FileStat, bytes]]:
        """Return the files among ``paths`` with their content, in the given order."""
        ...
