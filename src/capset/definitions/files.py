"""A session's files as a tool sees them: values, one protocol and the grammar of paths (spec 5, P22–P25)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from capset.errors import DefinitionError, FileError

MAX_PATH_BYTES: Final = 1024
MAX_LEVELS: Final = 64
FILE_BYTES: Final = 100_000_000
"""How long a file is at most: 100 MB (spec 5, P25). All writers of a database wait while one is written."""
SESSION_BYTES: Final = 500_000_000
"""How long the files of a session are together at most, unless it is said: 500 MB."""
SESSION_FILES: Final = 10_000
"""How many files a session has at most, unless it is said."""


@dataclass(frozen=True, slots=True)
class FileQuota:
    """How much may be kept in the files of one session (spec 5, P25). MB are decimal.

    A session has as many directories as it may have files, beside them: a file can make 63 of them. Content counts in
    full for every file that has it, though the store keeps it once. What is mounted does not count.

    Raises ``DefinitionError`` for what is no whole number, 0 or more, and for ``file_bytes`` above 100 MB.
    """

    file_bytes: int = FILE_BYTES
    session_bytes: int = SESSION_BYTES
    session_files: int = SESSION_FILES

    def __post_init__(self) -> None:
        for name in ("file_bytes", "session_bytes", "session_files"):
            value: object = getattr(self, name)
            if type(value) is not int or value < 0:
                raise DefinitionError(f"{name} is a whole number, 0 or more; got {value!r:.40}")
        if self.file_bytes > FILE_BYTES:
            raise DefinitionError(f"file_bytes is at most {FILE_BYTES:,}; got {self.file_bytes:,}")


@dataclass(frozen=True, slots=True)
class FileStat:
    """What is known of one file or directory. Times are ISO 8601 UTC.

    ``version`` grows by one with every write. What is new begins one above all that was deleted or moved away in its
    session, so that a path and a version never stand for two contents. This holds once every process that writes to the
    store is of this version of capset: those before it begin every new file with version 1, and hold no ``FileQuota``.
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
    """The files of one session. Every path is normalised first; one that cannot be raises ``FileError``."""

    async def stat(self, path: str) -> FileStat | None:
        """Return what is at ``path``, or ``None``."""
        ...

    async def read(self, path: str) -> tuple[FileStat, bytes]:
        """Return a file and its content. Raises ``FileError`` if there is none or it is a directory."""
        ...

    async def write(self, path: str, content: bytes, *, version: int | None = None) -> tuple[FileStat, bool]:
        """Create or replace a file, with its parents; return it and whether it is new.

        With ``version``, only if the file has just this one, 0 being that of none; else it raises ``VersionMismatch``.
        Raises ``QuotaExceeded`` for more than a ``FileQuota`` allows; what makes nothing grow is always taken.
        """
        ...

    async def list(self, path: str = "/", *, recursive: bool = False) -> list[FileStat]:
        """Return a directory's entries, directories first, then by name; all below it, by path, when recursive.

        Raises ``FileError`` if there is no directory at ``path``.
        """
        ...

    async def delete(self, path: str, *, recursive: bool = False, version: int | None = None) -> int:
        """Delete a file or directory and return how many entries went; 0 if there was none.

        A full directory needs ``recursive``; ``/`` is emptied and stays. ``version`` is as for ``write``.
        """
        ...

    async def move(self, source: str, target: str, *, overwrite: bool = False, version: int | None = None) -> FileStat:
        """Move a file, or a directory with all below it, and return what is at ``target`` now; its parents are made.

        Each entry's ``created_at`` is kept; all else is as if it were deleted where it was and then written anew:
        ``modified_at`` is now, and ``version`` that of a new file, or of a replaced one the next. ``version`` given is
        as for ``write``, that of the source.

        Raises ``FileError`` if there is nothing at ``source`` (404), something at ``target`` (409) unless both are
        files and ``overwrite`` is true, for ``/``, for a target that is the source or is in it, for what is read-only
        or holds it, and for a path that would be too long or too deep.
        """
        ...

    async def read_many(self, paths: Sequence[str]) -> Sequence[tuple[FileStat, bytes]]:
        """Return those of ``paths`` that are files, with their content, in the order given and as of one moment.

        The others, such as what was deleted since it was listed, are left out. All of it is in memory at once: ask for
        as much as the sizes in a listing allow.
        """
        ...


def normalise_path(path: str) -> str:
    """Return the canonical form of an absolute path: no empty or ``.`` part, no slash at the end.

    Raises ``FileError`` for a path that is relative, holds ``..``, NUL or a lone surrogate, is longer than 1,024
    bytes of UTF-8 or deeper than 64 levels (spec 5, P22).
    """
    if not path.startswith("/"):
        raise FileError(f"a path must be absolute, such as '/notes.txt'; got {path!r}")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise FileError(f"a path must not hold '..'; got {path!r}")
    if "\0" in path:
        raise FileError("a path must not hold a NUL character")
    clean = "/" + "/".join(parts)
    try:
        size = len(clean.encode())
    except UnicodeEncodeError:
        raise FileError("a path must be valid Unicode, without lone surrogates") from None
    if size > MAX_PATH_BYTES:
        raise FileError(f"a path must be at most {MAX_PATH_BYTES} bytes long; got {size}")
    if len(parts) > MAX_LEVELS:
        raise FileError(f"a path must be at most {MAX_LEVELS} levels deep; got {len(parts)}")
    return clean


def parent_of(path: str) -> str:
    """Return the directory that holds a normalised path; the root's is the root."""
    return path.rpartition("/")[0] or "/"


def parents_of(path: str) -> Iterator[str]:
    """Yield the directories that hold a normalised path, nearest first, without the root, which is always there."""
    while (path := parent_of(path)) != "/":
        yield path
