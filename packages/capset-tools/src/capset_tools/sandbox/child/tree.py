"""The files visible to Python code: a tree in memory, of limited size, that raises Python's own errors."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

ROOT: Final = PurePosixPath("/")
MAX_PATH: Final = 4_096
"""Maximum characters of a path in a run; stored paths must be far shorter."""
_FOLDERS: Final = 10_000
_TMP: Final = PurePosixPath("/tmp")  # noqa: S108  # a path in the sandbox


class TreeFull(OSError):
    """There are more files, or larger ones, than a run may have."""


class FileTree:
    """Files by path, and the directories around them. Paths are absolute and contain no ``..``."""

    def __init__(self, contents: dict[str, bytes], *, max_files: int, max_bytes: int) -> None:
        self.files: dict[PurePosixPath, bytearray] = {}
        self.folders: dict[PurePosixPath, set[str]] = {ROOT: set()}
        self._left = max_bytes
        self._places = max_files
        for path, content in contents.items():
            place = PurePosixPath(path)
            self.mkdir(place.parent, parents=True, exist_ok=True)
            self.files[place] = bytearray(content)
            self.folders[place.parent].add(place.name)
            self._left -= len(content)
            self._places -= 1
        if _TMP not in self.files:
            self.mkdir(_TMP, exist_ok=True)

    def exists(self, path: PurePosixPath) -> bool:
        return path in self.files or path in self.folders

    def content(self, path: PurePosixPath) -> bytearray:
        """Return a file's content. Raises ``FileNotFoundError`` or ``IsADirectoryError``."""
        file_content = self.files.get(path)
        if file_content is None:
            self._check_missing(path)
            raise IsADirectoryError(f"[Errno 21] Is a directory: {str(path)!r}")
        return file_content

    def names(self, path: PurePosixPath) -> list[str]:
        """Return the names in a directory, sorted."""
        entries = self.folders.get(path)
        if entries is None:
            self._check_missing(path)
            raise NotADirectoryError(f"[Errno 20] Not a directory: {str(path)!r}")
        return sorted(entries)

    def write(self, path: PurePosixPath, data: bytes, *, append: bool = False) -> None:
        """Write a new or existing file in an existing directory. Raises ``TreeFull`` if there is not enough room."""
        if path in self.folders:
            raise IsADirectoryError(f"[Errno 21] Is a directory: {str(path)!r}")
        if path.parent not in self.folders:
            self._check_missing(path)
        existing = self.files.get(path)
        grows = len(data) - (0 if append or existing is None else len(existing))
        _check_length(path)
        if grows > self._left or (existing is None and self._places < 1):
            raise TreeFull(f"[Errno 28] No space left on device: {str(path)!r}")
        if existing is None:
            self.files[path] = bytearray(data)
            self.folders[path.parent].add(path.name)
            self._places -= 1
        elif append:
            existing += data
        else:
            existing[:] = data
        self._left -= grows

    def mkdir(self, path: PurePosixPath, *, parents: bool = False, exist_ok: bool = False) -> None:
        if self.exists(path):
            if path in self.folders and exist_ok:
                return
            raise FileExistsError(f"[Errno 17] File exists: {str(path)!r}")
        if path.parent not in self.folders:
            if path.parent in self.files:
                raise NotADirectoryError(f"[Errno 20] Not a directory: {str(path)!r}")
            if not parents:
                self._check_missing(path.parent)
            self.mkdir(path.parent, parents=True, exist_ok=True)
        _check_length(path)
        if len(self.folders) > _FOLDERS:
            raise TreeFull(f"[Errno 28] No space left on device: {str(path)!r}")
        self.folders[path] = set()
        self.folders[path.parent].add(path.name)

    def unlink(self, path: PurePosixPath) -> None:
        self._left += len(self.content(path))
        self._places += 1
        del self.files[path]
        self.folders[path.parent].discard(path.name)

    def rmdir(self, path: PurePosixPath) -> None:
        if self.names(path) or path == ROOT:
            raise OSError(f"[Errno 39] Directory not empty: {str(path)!r}")
        del self.folders[path]
        self.folders[path.parent].discard(path.name)

    def rename(self, path: PurePosixPath, target: PurePosixPath) -> None:
        if not self.exists(path) or target.parent not in self.folders:
            raise FileNotFoundError(f"[Errno 2] No such file or directory: {str(path)!r} -> {str(target)!r}")
        _check_length(target)
        if path == target:
            return
        if path in target.parents:
            raise OSError(f"[Errno 22] Invalid argument: {str(path)!r} -> {str(target)!r}")
        if path in self.files:
            if target in self.files:
                self.unlink(target)
            elif target in self.folders:
                raise IsADirectoryError(f"[Errno 21] Is a directory: {str(target)!r}")
            self.files[target] = self.files.pop(path)
        else:
            if target in self.folders:
                self.rmdir(target)
            elif target in self.files:
                raise NotADirectoryError(f"[Errno 20] Not a directory: {str(target)!r}")
            self.files = {_moved(old_path, path, target): content for old_path, content in self.files.items()}
            self.folders = {_moved(old_path, path, target): names for old_path, names in self.folders.items()}
        self.folders[path.parent].discard(path.name)
        self.folders[target.parent].add(target.name)

    def _check_missing(self, path: PurePosixPath) -> None:
        if not self.exists(path):
            raise FileNotFoundError(f"[Errno 2] No such file or directory: {str(path)!r}")


def _check_length(path: PurePosixPath) -> None:
    if len(str(path)) > MAX_PATH:
        raise OSError(f"[Errno 36] File name too long: {str(path)[:80]!r}…")


def _moved(path: PurePosixPath, old: PurePosixPath, new: PurePosixPath) -> PurePosixPath:
    return new / path.relative_to(old) if path == old or old in path.parents else path
