"""A session's files as tools see them: values, one protocol and the grammar of paths (spec 5, P22–P25)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from capset.definitions.fields import checked_field, requiring, store_checked, within
from capset.errors import DefinitionError, FileError

MAX_PATH_BYTES: Final = 1024
MAX_PATH_LEVELS: Final = 64
MAX_FILE_BYTES: Final = 100_000_000
"""The maximum size of a file: 100 MB. All writers of a database wait while a file is written."""
SESSION_BYTES: Final = 500_000_000
"""The default limit for all files of a session together: 500 MB."""
SESSION_FILES: Final = 10_000
"""The default limit for the number of files in a session."""
_checked_quota: Final = requiring("{} is a whole number, 0 or more", within(int, 0))


@dataclass(frozen=True, slots=True)
class FileQuota:
    """Limits on the files of one session. MB are decimal.

    A session may have as many directories as files, in addition to them: one file can create 63 of them. Content counts
    in full for every file that has it, though the store holds it only once. Mounted files do not count.

    Raises ``DefinitionError`` unless every limit is a whole number, 0 or more, and ``file_bytes`` is at most 100 MB.
    """

    file_bytes: int = checked_field(_checked_quota, MAX_FILE_BYTES)
    session_bytes: int = checked_field(_checked_quota, SESSION_BYTES)
    session_files: int = checked_field(_checked_quota, SESSION_FILES)

    def __post_init__(self) -> None:
        store_checked(self)
        if self.file_bytes > MAX_FILE_BYTES:
            raise DefinitionError(f"file_bytes is at most {MAX_FILE_BYTES:,}; got {self.file_bytes:,}")


@dataclass(frozen=True, slots=True)
class FileStat:
    """The metadata of one file or directory. Times are ISO 8601 UTC.

    ``version`` grows by one with every write. A new entry starts one above every version that was deleted or moved away
    in its session, so that a path and a version never identify two different contents. This holds once every process
    that writes to the store runs this version of capset: earlier ones start every new file at version 1, and ignore
    ``FileQuota``.
    """

    path: str
    is_directory: bool
    size_bytes: int
    version: int
    created_at: str
    modified_at: str
    is_readonly: bool = False

    @property
    def name(self) -> str:
        """The last part of the path; ``/`` for the root."""
        return self.path.rpartition("/")[2] or "/"


class Files(Protocol):
    """The files of one session. Every path is normalised first; an invalid one raises ``FileError``."""

    async def stat(self, path: str) -> FileStat | None:
        """Return the entry at ``path``, or ``None``."""
        ...

    async def read(self, path: str, *, start: int = 0, size: int | None = None) -> tuple[FileStat, bytes]:
        """Return a file and its content, or at most ``size`` bytes of it from the offset ``start``.

        Read large files in parts: as long as ``version`` is the same, the parts belong together. Raises ``FileError``
        if the file does not exist or is a directory.
        """
        ...

    async def write(self, path: str, content: bytes, *, version: int | None = None) -> tuple[FileStat, bool]:
        """Create or replace a file and its missing parents; return it and whether it is new.

        With ``version``, the file must have exactly this version (0 for no file); otherwise raises ``VersionMismatch``.
        Raises ``QuotaExceeded`` if a ``FileQuota`` would be exceeded; a write that adds nothing is allowed.
        """
        ...

    async def list(self, path: str = "/", *, recursive: bool = False) -> list[FileStat]:
        """Return a directory's entries, directories first, then by name; if recursive, everything below it, by path.

        Raises ``FileError`` if there is no directory at ``path``.
        """
        ...

    async def delete(self, path: str, *, recursive: bool = False, version: int | None = None) -> int:
        """Delete a file or directory and return the number of deleted entries; 0 if it did not exist.

        A non-empty directory needs ``recursive``; deleting ``/`` only empties it. ``version`` is as for ``write``.
        """
        ...

    async def move(self, source: str, target: str, *, overwrite: bool = False, version: int | None = None) -> FileStat:
        """Move a file, or a directory with everything in it, and return the entry at ``target``; creates its parents.

        Each entry keeps its ``created_at``. Otherwise, a move is like a deletion at the source and a write at the
        target: ``modified_at`` is now, and ``version`` is that of a new file, or the next version of a replaced file.
        The argument ``version`` is as for ``write``, and refers to the source.

        Raises ``FileError`` if ``source`` does not exist (404); if ``target`` exists (409), unless both are files and
        ``overwrite`` is true; for ``/``; for a target that is the source or inside it; for an entry that is or contains
        a read-only one; and for a path that would be too long or too deep.
        """
        ...

    async def read_many(self, paths: Sequence[str]) -> Sequence[tuple[FileStat, bytes]]:
        """Return those of ``paths`` that are files, with their content, in the given order and as of one point in time.

        Others, such as files deleted since they were listed, are left out. All content is in memory at once: use the
        sizes in a listing to decide how much to request.
        """
        ...


def normalise_path(path: str) -> str:
    """Return the canonical form of an absolute path: no empty or ``.`` part, no trailing slash.

    Raises ``FileError`` for a path that is relative, contains ``..``, NUL or a lone surrogate, is longer than 1,024
    bytes of UTF-8 or deeper than 64 levels.
    """
    if not path.startswith("/"):
        raise FileError(f"a path must be absolute, such as '/notes.txt'; got {path!r}")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise FileError(f"a path must not contain '..'; got {path!r}")
    if "\0" in path:
        raise FileError("a path must not contain a NUL character")
    clean = "/" + "/".join(parts)
    try:
        size = len(clean.encode())
    except UnicodeEncodeError:
        raise FileError("a path must be valid Unicode, without lone surrogates") from None
    if size > MAX_PATH_BYTES:
        raise FileError(f"a path must be at most {MAX_PATH_BYTES} bytes long; got {size}")
    if len(parts) > MAX_PATH_LEVELS:
        raise FileError(f"a path must be at most {MAX_PATH_LEVELS} levels deep; got {len(parts)}")
    return clean


def parent_of(path: str) -> str:
    """Return the parent directory of a normalised path; the root's is the root."""
    return path.rpartition("/")[0] or "/"


def parents_of(path: str) -> Iterator[str]:
    """Yield the parent directories of a normalised path, nearest first, without the root, which always exists."""
    while (path := parent_of(path)) != "/":
        yield path
