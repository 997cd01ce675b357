"""The temporary folder of a process: its own, and removed in the end, by the next process if it was killed."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_PREFIX: Final = "capset-process-"
_NO_LOCKS: Final = (errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors for a lock that the file system does not have: NFS locks no folder."""

if sys.platform == "win32":

    def _lock(folder: Path) -> int | None:
        """Do nothing: on Windows no folder can be locked, and what a killed process leaves stays."""
        return None
else:
    import fcntl

    def _lock(folder: Path) -> int | None:
        """Return the lock of a folder of this user; ``None`` where the file system has no locks.

        Raises ``BlockingIOError`` if another process holds it, ``FileNotFoundError`` if the folder is gone, and another
        ``OSError`` for what is no folder of this user.
        """
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            opened = os.fstat(descriptor)
            if opened.st_uid != os.geteuid():
                raise PermissionError(f"{folder} is another user's")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(opened, folder.lstat()):
                raise FileNotFoundError(f"{folder} is another folder now")
        except OSError as error:
            os.close(descriptor)
            if error.errno in _NO_LOCKS:
                return None
            raise
        return descriptor


@contextmanager
def own_temporary_folder() -> Generator[Path]:
    """Have this process, and what it starts, make temporary files in a folder of its own, which is yielded.

    A living process holds the lock of its folder. The system frees it when the process ends, in any way, and the next
    process to start removes the folders that no process holds. Raises ``OSError`` where nothing temporary can be
    written.
    """
    root = Path(tempfile.gettempdir())
    for leftover in root.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is another user's, or no folder, or a living process holds it
            if (lock := _lock(leftover)) is not None:
                shutil.rmtree(leftover, ignore_errors=True)
                os.close(lock)
    folder, lock = _new_folder(root)
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield folder
    finally:
        tempfile.tempdir = before[0]
        if before[1] is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before[1]
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _new_folder(root: Path) -> tuple[Path, int | None]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        # Another process, which starts now, may take it for one that is left, and remove it.
        with suppress(BlockingIOError, FileNotFoundError):
            return folder, _lock(folder)
