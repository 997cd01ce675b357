"""File trees and session quotas, implemented once for all stores (spec 5, P25)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from capset.definitions.calls.files import MAX_PATH_BYTES, MAX_PATH_LEVELS, FileQuota, FileStat, parents_of
from capset.errors import FileError, QuotaExceeded, VersionMismatch, counted
from capset.stores.base.files import DEFAULT_QUOTA


@dataclass(frozen=True, slots=True)
class Usage:
    """The number of files and directories in a session, excluding ``/``, and the total size of the files."""

    files: int = 0
    directories: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Growth:
    """A change at ``path``: a file of ``size_bytes`` replaces one of ``old_bytes``, and ``directories`` are added.

    ``old_bytes`` is ``None`` if there is no file yet.
    """

    path: str
    size_bytes: int = 0
    old_bytes: int | None = 0
    directories: int = 0


def check_room(quota: FileQuota, growth: Growth, usage: Callable[[], Usage]) -> None:
    """Raise ``QuotaExceeded`` if a change does not fit the quota. A change without growth always fits.

    ``usage`` is called only if something grows, since its cost is proportional to the number of files.
    """
    more = growth.size_bytes - (growth.old_bytes or 0)
    is_new = growth.old_bytes is None
    if (more > 0 or is_new) and growth.size_bytes > quota.file_bytes:
        raise QuotaExceeded(
            f"{growth.path!r} would be {growth.size_bytes:,} bytes long, and a file is at most {quota.file_bytes:,}:"
            " write less, or split it into several files"
        )
    if more <= 0 and not is_new and not growth.directories:
        return
    used = usage()
    _check_limit(growth.path, "byte of files", "bytes of files", used.size_bytes, more, quota.session_bytes)
    _check_limit(growth.path, "file", "files", used.files, int(is_new), quota.session_files)
    _check_limit(growth.path, "directory", "directories", used.directories, growth.directories, quota.session_files)


def _check_limit(path: str, noun: str, several: str, existing: int, more: int, limit: int) -> None:
    if more > 0 and existing + more > limit:
        used = counted(existing, noun, several)
        raise QuotaExceeded(
            f"there is no room for {path!r}: the session has {used}, this needs {more:,} more, and the limit"
            f" is {limit:,}; delete files that are no longer needed"
        )


ROOT: Final = FileStat(
    path="/",
    is_directory=True,
    size_bytes=0,
    version=0,
    created_at="1970-01-01T00:00:00.000000Z",
    modified_at="1970-01-01T00:00:00.000000Z",
)
"""The root. It is never created: its version is 0, and its times are the epoch."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A row: an entry's metadata, and the hexadecimal SHA-256 of its content, or ``None`` for a directory."""

    stat: FileStat
    digest: str | None


class TreeRows(Protocol):
    """The rows of one session, within one transaction."""

    def get(self, path: str) -> TreeNode | None:
        """Return the row at a path other than ``/``."""
        ...

    def put(self, node: TreeNode) -> None:
        """Insert or replace a row."""
        ...

    def children(self, path: str) -> Sequence[TreeNode]:
        """Return the rows directly below a directory, in any order."""
        ...

    def descendants(self, path: str) -> Sequence[TreeNode]:
        """Return all rows below a directory, in any order."""
        ...

    def usage(self) -> Usage:
        """Return the session's totals."""
        ...

    def highest_removed_version(self) -> int:
        """Return the highest version of all removed entries; 0 if there are none."""
        ...

    def record_removal(self, version: int) -> None:
        """Record the version of a removed entry."""
        ...

    def remove(self, paths: Sequence[str]) -> None:
        """Remove the rows at these paths."""
        ...

    def move(self, source: str, target: str, *, version: int, now: str) -> None:
        """Move the row at ``source`` and all its descendants to the free path ``target``.

        All these rows get this ``version`` and the modification time ``now``. The row of the new parent already exists.
        """
        ...


def stat(rows: TreeRows, path: str) -> FileStat | None:
    """Return the entry at ``path``, or ``None``."""
    if path == "/":
        return ROOT
    node = rows.get(path)
    return node.stat if node else None


def read(node: TreeNode | None, path: str) -> tuple[FileStat, str]:
    """Return the metadata and the content digest of the file at ``path``, whose row is ``node``.

    Raises ``FileError`` if the file does not exist or is a directory.
    """
    if path == "/" or (node and node.digest is None):
        raise FileError(f"{path!r} is a directory, not a file")
    if node is None or node.digest is None:
        raise FileError(f"there is no file {path!r}", status=404)
    return node.stat, node.digest


def list_directory(rows: TreeRows, path: str, *, recursive: bool) -> list[FileStat]:
    """Return a directory's entries, directories first, then by name; if ``recursive``, all descendants by path.

    Raises ``FileError`` if the directory does not exist.
    """
    directory = stat(rows, path)
    if directory is None:
        raise FileError(f"there is no directory {path!r}", status=404)
    if not directory.is_directory:
        raise FileError(f"{path!r} is a file, not a directory")
    if recursive:
        return sorted([node.stat for node in rows.descendants(path)], key=lambda entry: entry.path)
    entries = [node.stat for node in rows.children(path)]
    return sorted(entries, key=lambda entry: (not entry.is_directory, entry.name))


def write(
    rows: TreeRows,
    path: str,
    *,
    digest: str,
    size: int,
    now: str,
    version: int | None = None,
    quota: FileQuota = DEFAULT_QUOTA,
) -> tuple[FileStat, TreeNode | None]:
    """Create or replace a file and its missing parents. Return the file and the row that it replaced, if any.

    Raises the same errors as ``check_write``.
    """
    old, missing = check_write(rows, path, size=size, version=version, quota=quota)
    first = rows.highest_removed_version() + 1 if missing or not old else 0
    _create_directories(rows, missing, first, now)
    version, created_at = (old.stat.version + 1, old.stat.created_at) if old else (first, now)
    new = FileStat(path, False, size, version, created_at, now)
    rows.put(TreeNode(new, digest))
    return new, old


def check_write(
    rows: TreeRows, path: str, *, size: int, version: int | None = None, quota: FileQuota = DEFAULT_QUOTA
) -> tuple[TreeNode | None, Sequence[str]]:
    """Return the row that a write would replace, if any, and the missing directories above it.

    Raises ``FileError`` if ``path`` is a directory or read-only, or if a parent is a file or read-only. Raises
    ``VersionMismatch`` if the file's version is not the expected ``version`` (0 stands for a missing file), and
    ``QuotaExceeded`` if there is no room.
    """
    if path == "/":
        raise FileError("'/' is a directory, not a file")
    missing = _missing_parents(rows, "write", path)
    old = rows.get(path)
    if old:
        if old.digest is None:
            raise FileError(f"{path!r} is a directory, not a file")
        _refuse_readonly("write", path, old)
    _check_version(path, old, version)
    check_room(quota, Growth(path, size, old.stat.size_bytes if old else None, len(missing)), rows.usage)
    return old, missing


def delete(rows: TreeRows, path: str, *, recursive: bool, version: int | None = None) -> Sequence[TreeNode]:
    """Delete the entry at ``path`` and return the deleted rows, none if the entry does not exist.

    Deleting ``/`` deletes its content only. Raises ``FileError`` for a directory that is not empty, unless
    ``recursive``, and if an entry in the tree or above it is read-only. Raises ``VersionMismatch`` as ``write`` does.
    """
    deleted = check_delete(rows, path, recursive=recursive, version=version)
    rows.remove([node.stat.path for node in deleted])
    if deleted:
        rows.record_removal(max(node.stat.version for node in deleted))
    return deleted


def check_delete(rows: TreeRows, path: str, *, recursive: bool, version: int | None = None) -> Sequence[TreeNode]:
    """Return the rows that ``delete`` would delete. Raises the same errors."""
    top = rows.get(path) if path != "/" else None
    _check_version(path, top, version)
    if top is None and path != "/":
        return []
    is_directory = top is None or top.stat.is_directory
    below = list(rows.descendants(path)) if is_directory else []
    if below and not recursive:
        raise FileError(f"the directory {path!r} is not empty; delete it with recursive=true")
    deleted = [top, *below] if top else below
    above = [node for parent in parents_of(path) if (node := rows.get(parent))]
    for node in (*above, *deleted):
        _refuse_readonly("delete", path, node)
    return deleted


def move(
    rows: TreeRows,
    source: str,
    target: str,
    *,
    overwrite: bool,
    now: str,
    version: int | None = None,
    quota: FileQuota = DEFAULT_QUOTA,
) -> tuple[FileStat, TreeNode | None]:
    """Move a file, or a directory with its content. Return the entry at ``target`` and the row of a replaced file.

    Raises ``FileError`` and ``VersionMismatch`` as ``definitions.calls.files.Files.move`` does, and ``QuotaExceeded``.
    """
    if source == "/":
        raise FileError("'/' cannot be moved")
    top = rows.get(source)
    _check_version(source, top, version)
    if top is None:
        raise FileError(f"there is no file or directory {source!r}", status=404)
    if source == target:
        raise FileError(f"{source!r} cannot be moved to itself; name another target")
    if target.startswith(f"{source}/"):
        raise FileError(f"cannot move {source!r} to {target!r}, which is within it")
    missing = _missing_parents(rows, "move to", target)
    old = rows.get(target)
    if target == "/" or (old and (not overwrite or old.digest is None or top.digest is None)):
        raise _exists_error(target, is_file=bool(old and old.digest), both=bool(old and old.digest and top.digest))
    below = rows.descendants(source) if top.digest is None else ()
    above = [node for parent in parents_of(source) if (node := rows.get(parent))]
    for node in (*above, top, *below):
        _refuse_readonly("move", source, node)
    if old:
        _refuse_readonly("overwrite", target, old)
    for node in below:
        _check_path_limits(source, target, f"{target}{node.stat.path[len(source) :]}")
    check_room(quota, Growth(target, directories=len(missing)), rows.usage)
    rows.record_removal(max(node.stat.version for node in (top, *below)))
    first = rows.highest_removed_version() + 1
    _create_directories(rows, missing, first, now)
    if old:
        rows.remove([target])
    new = moved_node(top, source, target, version=old.stat.version + 1 if old else first, now=now)
    rows.move(source, target, version=new.stat.version, now=now)
    return new.stat, old


def moved_node(node: TreeNode, source: str, target: str, *, version: int, now: str) -> TreeNode:
    """Return a row at or below ``source``, changed by a move to ``target``."""
    path = f"{target}{node.stat.path[len(source) :]}"
    return TreeNode(replace(node.stat, path=path, version=version, modified_at=now), node.digest)


def _missing_parents(rows: TreeRows, verb: str, path: str) -> Sequence[str]:
    """Return the missing directories above ``path``. Raises ``FileError`` if ``path`` cannot exist."""
    missing: list[str] = []
    for parent in parents_of(path):
        node = rows.get(parent)
        if node is None:
            missing.append(parent)
            continue
        if not node.stat.is_directory:
            raise FileError(f"cannot {verb} {path!r}: {parent!r} is a file, not a directory")
        _refuse_readonly(verb, path, node)
    return missing


def _create_directories(rows: TreeRows, directories: Sequence[str], version: int, now: str) -> None:
    for path in directories:
        rows.put(TreeNode(FileStat(path, True, 0, version, now, now), None))


def _exists_error(path: str, *, is_file: bool, both: bool) -> FileError:
    problem = f"there is already a {'file' if is_file else 'directory'} {path!r}"
    hint = "overwrite=true replaces it" if both else "delete it first, or name another path"
    return FileError(f"{problem}; {hint}", code="file_exists", status=409)


def _check_path_limits(source: str, target: str, path: str) -> None:
    size, levels = len(path.encode()), path.count("/")
    if size > MAX_PATH_BYTES or levels > MAX_PATH_LEVELS:
        raise FileError(
            f"cannot move {source!r} to {target!r}: {path!r} would be {size} bytes long and {levels} levels deep;"
            f" the limits are {MAX_PATH_BYTES} bytes and {MAX_PATH_LEVELS} levels"
        )


def _check_version(path: str, node: TreeNode | None, expected: int | None) -> None:
    version = node.stat.version if node else 0
    if expected is not None and version != expected:
        state = f"exists in version {version}" if version else "does not exist"
        raise VersionMismatch(
            f"{path!r} {state}; expected version {expected}" if expected else f"{path!r} already {state}"
        )


def _refuse_readonly(verb: str, path: str, node: TreeNode) -> None:
    if node.stat.is_readonly:
        raise FileError(f"cannot {verb} {path!r}: {node.stat.path!r} is read-only")
