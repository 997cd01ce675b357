"""The rules of a session's files, once for every store: pure functions over the rows of one session (spec 5, P22–P25).

Paths arrive normalised. Every function checks everything before it changes anything, so that a store without
transactions is never left half done. ``/`` is always there and has no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from capset.definitions.files import FileStat, parent_of
from capset.errors import FileError, VersionMismatch

ROOT: Final = FileStat(
    path="/",
    is_directory=True,
    size_bytes=0,
    version=0,
    created_at="1970-01-01T00:00:00.000000Z",
    modified_at="1970-01-01T00:00:00.000000Z",
)
"""The root, which nobody made: it has the version 0 and the epoch as its times."""


@dataclass(frozen=True, slots=True)
class Node:
    """A row: what is known of an entry, and the SHA-256 of its content in hexadecimal, ``None`` for a directory."""

    stat: FileStat
    digest: str | None


class Rows(Protocol):
    """The rows of one session, within one transaction."""

    def get(self, path: str) -> Node | None:
        """Return the row at a path other than ``/``."""
        ...

    def put(self, node: Node) -> None:
        """Insert or replace a row."""
        ...

    def children(self, path: str) -> Sequence[Node]:
        """Return the rows directly below a directory, in any order."""
        ...

    def descendants(self, path: str) -> Sequence[Node]:
        """Return all rows below a directory, in any order."""
        ...

    def remove(self, paths: Sequence[str]) -> None:
        """Remove the rows at these paths."""
        ...


def stat(rows: Rows, path: str) -> FileStat | None:
    """Return what is at ``path``."""
    if path == "/":
        return ROOT
    node = rows.get(path)
    return node.stat if node else None


def read(rows: Rows, path: str) -> tuple[FileStat, str]:
    """Return a file and the digest of its content. Raises ``FileError`` if there is none or it is a directory."""
    node = rows.get(path) if path != "/" else None
    if path == "/" or (node and node.digest is None):
        raise FileError(f"{path!r} is a directory, not a file")
    if node is None or node.digest is None:
        raise FileError(f"there is no file {path!r}", status=404)
    return node.stat, node.digest


def listing(rows: Rows, path: str, *, recursive: bool) -> list[FileStat]:
    """Return a directory's entries: directories first, then by name; or all that is below it, by path.

    Raises ``FileError`` if there is no such directory.
    """
    found = stat(rows, path)
    if found is None:
        raise FileError(f"there is no directory {path!r}", status=404)
    if not found.is_directory:
        raise FileError(f"{path!r} is a file, not a directory")
    if recursive:
        return sorted([node.stat for node in rows.descendants(path)], key=lambda entry: entry.path)
    entries = [node.stat for node in rows.children(path)]
    return sorted(entries, key=lambda entry: (not entry.is_directory, entry.name))


def write(
    rows: Rows, path: str, *, digest: str, size: int, now: str, version: int | None = None
) -> tuple[FileStat, Node | None]:
    """Create or replace a file, with its parents. Return it, and the row that it replaced.

    Raises ``FileError`` if ``path`` is a directory or read-only, or a parent is a file or read-only, and
    ``VersionMismatch`` if the file has another version than the one expected, 0 where there is none.
    """
    if path == "/":
        raise FileError("'/' is a directory, not a file")
    parents = list(_parents(path))
    found = {parent: node for parent in parents if (node := rows.get(parent))}
    for parent, node in found.items():
        if not node.stat.is_directory:
            raise FileError(f"cannot write {path!r}: {parent!r} is a file, not a directory")
        _refuse_readonly("write", path, node)
    old = rows.get(path)
    if old:
        if old.digest is None:
            raise FileError(f"{path!r} is a directory, not a file")
        _refuse_readonly("write", path, old)
    _check_version(path, old, version)
    for parent in parents:
        if parent not in found:
            rows.put(Node(FileStat(parent, True, 0, 1, now, now), None))
    version, created_at = (old.stat.version + 1, old.stat.created_at) if old else (1, now)
    new = FileStat(path, False, size, version, created_at, now)
    rows.put(Node(new, digest))
    return new, old


def delete(rows: Rows, path: str, *, recursive: bool, version: int | None = None) -> Sequence[Node]:
    """Delete what is at ``path`` and return the rows that went: none if there was nothing.

    A full directory needs ``recursive``; ``/`` is emptied and stays. Raises ``FileError`` otherwise, or if something
    in the tree, or above it, is read-only, and ``VersionMismatch`` as ``write`` does.
    """
    top = rows.get(path) if path != "/" else None
    _check_version(path, top, version)
    if top is None and path != "/":
        return []
    is_directory = top is None or top.stat.is_directory
    below = list(rows.descendants(path)) if is_directory else []
    if below and not recursive:
        raise FileError(f"the directory {path!r} is not empty; delete it with recursive=true")
    gone = [top, *below] if top else below
    above = [node for parent in _parents(path) if (node := rows.get(parent))]
    for node in (*above, *gone):
        _refuse_readonly("delete", path, node)
    rows.remove([node.stat.path for node in gone])
    return gone


def _parents(path: str) -> Iterator[str]:
    """Yield the directories that hold a path, nearest first, without the root."""
    while (path := parent_of(path)) != "/":
        yield path


def _check_version(path: str, node: Node | None, expected: int | None) -> None:
    found = node.stat.version if node else 0
    if expected is not None and found != expected:
        has = f"has the version {found}" if found else "is not there"
        raise VersionMismatch(f"{path!r} {has}, not the version {expected}" if expected else f"{path!r} {has} already")


def _refuse_readonly(verb: str, path: str, node: Node) -> None:
    if node.stat.is_readonly:
        raise FileError(f"cannot {verb} {path!r}: {node.stat.path!r} is read-only")
