"""The port of the sessions' files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from capset.definitions.files import FileQuota, FileStat

STANDARD: Final = FileQuota()
"""What a session may keep unless it is said."""


class FileStore(Protocol):
    """The files of every session that there is. Paths are normalised already; ``now`` is ISO 8601 UTC.

    Content is kept once by hash within an org (spec 5, P25). Every method is one transaction. ``FileError`` is raised
    as ``definitions.files.Files`` says.
    """

    async def stat(self, session: str, path: str) -> FileStat | None:
        """Return what is at ``path``; the root is always there."""
        ...

    async def read(self, session: str, path: str) -> tuple[FileStat, bytes]:
        """Return a file and its content."""
        ...

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

        With ``version``, only if the file has just this one, or if there is none and it is 0; else it raises
        ``VersionMismatch``. Raises ``QuotaExceeded`` for more than ``quota`` allows, whoever writes beside, and
        ``FileError`` if there is no such session, or none any more.
        """
        ...

    async def list(self, session: str, path: str, *, recursive: bool) -> list[FileStat]:
        """Return a directory's entries: directories first, then by name; all below it by path when recursive."""
        ...

    async def delete(self, session: str, path: str, *, recursive: bool, version: int | None = None) -> int:
        """Delete and return how many entries went. ``version`` is as for ``write``."""
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
        """Move a file or a whole directory, and return what is at ``target`` now. ``version`` is the source's."""
        ...

    async def read_many(self, session: str, paths: Sequence[str]) -> Sequence[tuple[FileStat, bytes]]:
        """Return those of ``paths`` that are files, with their content, in the order given."""
        ...
