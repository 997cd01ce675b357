"""The temporary folder of a process: removed when it ends, or by the next process if it was killed."""

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
"""Errors of file systems that cannot lock folders, such as NFS."""

if sys.platform == "win32":

    def _lock(folder: Path) -> int | None:
        """Do nothing: Windows cannot lock folders, so the folders of killed processes stay."""
        return None
else:
    import fcntl

    def _lock(folder: Path) -> int | None:
        """Lock a folder of this user, and return the lock; ``None`` if the file system has no locks.

        Raises ``BlockingIOError`` if another process holds the lock, ``FileNotFoundError`` if the folder is gone, and
        another ``OSError`` if it is not a folder or belongs to another user.
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
    """Yield a temporary folder that this process and its subprocesses use for all temporary files.

    A live process holds the lock of its folder. The system releases the lock when the process ends, for any
    reason, and the next process that starts removes the unlocked folders. Raises ``OSError`` if no temporary files can
    be written.
    """
    root = Path(tempfile.gettempdir())
    for leftover in root.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, not a folder, or in use
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
        # Another process that starts now may mistake the folder for a leftover, and remove it.
        with suppress(BlockingIOError, FileNotFoundError):
            return folder, _lock(folder)
