"""The files of a run in its jail: written before the run, and read back after it."""

from __future__ import annotations

import os
import stat
import sys
from typing import Final

from capset_tools.sandbox.child.frames import RunLimits
from capset_tools.sandbox.child.output import LeftFiles

SCRIPTS: Final = "/.runtime/script"
SCRIPT: Final = f"{SCRIPTS}/script.sh"
"""The script of bash. It is a file, since bash ends differently if its script is an argument."""
SCRIPT_LINK: Final = "/.script"
"""The script's path for bash, so that ``$(dirname "$0")`` is the folder of the files; links do not count as files."""

_OWN_FOLDERS: Final = ("/.runtime", "/dev", "/proc")
"""Directories of the jail itself: the interpreter and the commands, devices, processes."""
_RESERVED: Final = "this path is one of the jail's own"
_NO_TEXT: Final = "its path is no text in UTF-8"


_OF_SHELL: Final = {
    "/bin/python3": "#!/bin/sh\nexec /.runtime/ld.so --library-path /.runtime/libraries "
    '{python} -E -s -B -X utf8 "$@"\n',
    "/etc/passwd": "user:x:1000:1000::/:/bin/bash\n",
    "/etc/group": "user:x:1000:\n",
}


def furnish_shell() -> None:
    """Create the files that bash and its commands expect, such as ``python3``, and the link to the script."""
    for path, text in _OF_SHELL.items():
        os.makedirs(path.rpartition("/")[0], exist_ok=True)  # noqa: PTH103
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text.format(python=sys.executable))
        os.chmod(path, 0o755 if path.startswith("/bin/") else 0o644)  # noqa: PTH101
    os.symlink("python3", "/bin/python")  # noqa: PTH211
    os.symlink(SCRIPT, SCRIPT_LINK)  # noqa: PTH211


class JailFiles:
    """The file system of a jail. Must be created before the files of the run are placed."""

    def __init__(self) -> None:
        self._own = {path for path, is_folder in _walked({}) if not is_folder}

    def place(self, contents: dict[str, bytes]) -> dict[str, str]:
        """Write the files of a run. Return, by path, why some could not be written."""
        not_shown: dict[str, str] = {}
        for path, content in contents.items():
            if path in self._own or any(path == folder or path.startswith(f"{folder}/") for folder in _OWN_FOLDERS):
                not_shown[path] = _RESERVED
                continue
            try:
                os.makedirs(path.rpartition("/")[0] or "/", exist_ok=True)  # noqa: PTH103
                placed = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
                with os.fdopen(placed, "wb") as file:
                    file.write(content)
            except OSError as error:
                not_shown[path] = _words(error)
        return not_shown

    def left(self, limits: RunLimits) -> LeftFiles:
        """Return the files after a run.

        Raises ``OverflowError`` if there are more, or larger ones, than a run may have.
        """
        remaining, size = LeftFiles({}, {}, set()), 0
        for path, is_folder in _walked(remaining.not_kept):
            _check_number(remaining, limits)
            if is_folder:
                remaining.folders.add(path)
                continue
            if path in self._own:
                continue
            if (name := _readable(path)) != path:
                remaining.not_kept[name] = _NO_TEXT
                continue
            content = _content(path, limits["max_bytes"] - size, remaining.not_kept)
            if content is not None:
                remaining.files[path] = content
                size += len(content)
        _check_number(remaining, limits)
        return remaining


def _check_number(remaining: LeftFiles, limits: RunLimits) -> None:
    """Raise ``OverflowError`` if there are more files than a run may have, including those that are not kept."""
    if len(remaining.files) + len(remaining.not_kept) > limits["max_files"]:
        raise OverflowError("too many files")


def _walked(unread: dict[str, str]) -> list[tuple[str, bool]]:
    """Return all paths, each with whether it is a directory. Adds directories that cannot be read to ``unread``."""
    paths: list[tuple[str, bool]] = []
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            if folder:
                os.chmod(folder, 0o700)  # noqa: PTH101  # the code may have removed the permissions; we own it
            with os.scandir(folder or "/") as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}"
                    if path in _OWN_FOLDERS:
                        continue
                    is_folder = entry.is_dir(follow_symlinks=False)
                    paths.append((path, is_folder))
                    if is_folder:
                        folders.append(path)
        except OSError as error:
            unread[_readable(folder)] = _words(error)
    return paths


def _readable(path: str) -> str:
    """Return a path as text that can be sent, with U+FFFD for bytes that are not UTF-8."""
    return os.fsencode(path).decode(errors="replace")


def _content(path: str, room: int, not_kept: dict[str, str]) -> bytes | None:
    """Return the content of a regular file, or add a reason to ``not_kept``. Raises ``OverflowError`` without room."""
    try:
        kind = os.lstat(path)
        if not stat.S_ISREG(kind.st_mode):
            not_kept[path] = f"it is no regular file, but a {_kind_of(kind.st_mode)}"
            return None
        if kind.st_size > room:  # a sparse file may be far larger than the file system
            raise OverflowError("too large")
        os.chmod(path, 0o644)  # noqa: PTH101
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError as error:
        not_kept[path] = _words(error)
        return None


def _kind_of(mode: int) -> str:
    kinds = {stat.S_IFLNK: "symlink", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "special file")


def _words(error: OSError) -> str:
    return error.strerror or type(error).__name__
