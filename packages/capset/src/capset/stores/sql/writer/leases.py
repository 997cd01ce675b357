"""Liveness of writers: each holds a lock for as long as its process lives (spec 4, G19).

For a database file, each writer locks a file of its own, so all writers must be on one host. The system releases the
lock when the process ends, however it ends. So a writer is dead when its file is missing, or when another process can
lock it. A timeout would mistake a slow writer for a dead one. On a network drive, file locks have to work there.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> bool:
        """Try to lock an open file for this process, and return whether it is locked now."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        """Try to lock an open file for this open file description, and return whether it is locked now."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Leases(Protocol):
    """The locks of one database's writers. A dead writer never comes back, since each id is used once."""

    def take(self, writer: str) -> None:
        """Take this writer's lock unless it is already held. Propagates system and database errors."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...

    def dead_writers(self, writers: Iterable[str]) -> list[str]:
        """Return the dead writers among ``writers``. It may take some seconds to be sure."""
        ...

    def sweep(self) -> None:
        """Remove the leftover locks of dead writers."""
        ...

    def prepare(self, writer: str) -> None:
        """Prepare for a transaction of this writer. Propagates system errors."""
        ...


_STATE_OFFSET: Final = 1
"""Offset of a lock file's content: on Windows, the locked first byte cannot be read."""
_WRITING: Final = b"w"
_IDLE: Final = b"-"


class FileLeases:
    """A folder with the lock files of one database's writers. Each names its process and says whether it is writing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock_file: tuple[Path, int] | None = None

    def take(self, writer: str) -> None:
        """Take this writer's lock unless it is already held. Raises ``OSError`` if that fails."""
        while self._lock_file is None:
            path = self._path(writer)
            try:
                self._folder.mkdir()
            except FileExistsError:  # exist_ok would raise it too if the folder is removed at this moment
                if self._folder.is_file():
                    raise
            with contextlib.suppress(FileNotFoundError):  # another writer closed and removed the empty folder
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
                # Another process's `dead_writers` may have locked and removed the new file in between.
                if _lock(descriptor) and _is_same_file(path, descriptor):
                    self._lock_file = (path, descriptor)
                    self._mark(_IDLE + f" process {os.getpid()} on {socket.gethostname()}".encode())
                else:
                    os.close(descriptor)

    def release(self) -> None:
        """Release the lock and remove its file."""
        if self._lock_file is None:
            return
        (path, descriptor), self._lock_file = self._lock_file, None
        os.close(descriptor)
        with contextlib.suppress(OSError):  # the next `dead_writers` removes a leftover file, as it is unlocked
            path.unlink()
            self._folder.rmdir()

    def dead_writers(self, writers: Iterable[str]) -> list[str]:
        """Return the dead writers among ``writers``, and remove their lock files."""
        dead: list[str] = []
        for writer in writers:
            path = self._path(writer)
            try:
                descriptor = os.open(path, os.O_RDWR)
            except FileNotFoundError:
                dead.append(writer)
            except PermissionError:
                continue  # another user's file: this process cannot tell whether the writer is alive
            else:
                if _lock(descriptor):
                    dead.append(writer)
                    _remove(path, descriptor)
                else:
                    os.close(descriptor)
        return dead

    def prepare(self, writer: str) -> None:
        """Take this writer's lock, so that other processes can see when it writes."""
        self.take(writer)

    def mark_writing(self) -> None:
        """Mark this process as writing to the database."""
        with contextlib.suppress(OSError):  # such as a full disk: the mark only improves error messages
            self._mark(_WRITING)

    def mark_idle(self) -> None:
        """Mark this process as no longer writing to the database."""
        with contextlib.suppress(OSError):  # an error would keep the only connection from returning to its pool
            self._mark(_IDLE)

    def holder(self) -> str | None:
        """Return the process that is marked as writing, such as ``process 123 on host``, or ``None``."""
        own_path = self._lock_file and self._lock_file[0]
        for path in self._files():
            if path == own_path:
                continue
            with contextlib.suppress(OSError), path.open("rb", buffering=0) as file:
                file.seek(_STATE_OFFSET)
                state, _, process = file.read(400).partition(b" ")  # more than any mark has
                if state == _WRITING and not _lock(file.fileno()):
                    return process.decode(errors="replace")
        return None

    def _mark(self, content: bytes) -> None:
        if self._lock_file is not None:
            os.lseek(self._lock_file[1], _STATE_OFFSET, os.SEEK_SET)
            os.write(self._lock_file[1], content)

    def sweep(self) -> None:
        """Remove the files of dead writers. This is tidying: liveness matters only for writers with open intents."""
        self.dead_writers([path.stem for path in self._files()])

    def _files(self) -> list[Path]:
        try:
            return list(self._folder.glob("*.lock"))
        except FileNotFoundError:  # some versions of Python raise it if another writer is removing the folder
            return []

    def _path(self, writer: str) -> Path:
        return self._folder / f"{writer}.lock"


def _is_same_file(path: Path, descriptor: int) -> bool:
    """Whether a path still refers to an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove(path: Path, descriptor: int) -> None:
    """Remove a file whose lock is held, and release the lock. No other process may lock the file in between."""
    if sys.platform == "win32":  # cannot remove an open file, which protects the file of a live writer
        os.close(descriptor)
        with contextlib.suppress(PermissionError):
            path.unlink(missing_ok=True)
    else:
        path.unlink(missing_ok=True)
        os.close(descriptor)
