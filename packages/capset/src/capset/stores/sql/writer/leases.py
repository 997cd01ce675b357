"""Liveness of writers: each holds a lock for as long as its process lives (spec 4, G19).

For a database file, it is a lock on a file of the writer's own (one host). The system frees it when the process ends,
in any way. So a writer is gone when its file is, or when another can lock it; a time-out would take a slow writer for a
dead one. A database on a network drive needs locks that work there.
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
        """Try to lock an open file for this process; return whether that worked."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        """Try to lock an open file for this open file description; return whether that worked."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Leases(Protocol):
    """The locks of one database's writers. A dead writer never comes back: a writer's id is used once."""

    def take(self, writer: str) -> None:
        """Hold this writer's lock from now on, if it is not held already; propagates system and database errors."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...

    def gone(self, writers: Iterable[str]) -> list[str]:
        """Return the dead writers among ``writers``; it may wait for some seconds to be sure."""
        ...

    def sweep(self) -> None:
        """Remove leftovers of dead writers' locks."""
        ...

    def prepare(self, writer: str) -> None:
        """Prepare for a transaction of this writer; propagates system errors."""
        ...


_STATE_AT: Final = 1
"""Offset of a lock file's content; Windows refuses reads of the locked byte."""
_WRITES: Final = b"w"
_RESTS: Final = b"-"
_LONGEST: Final = 400


class FileLeases:
    """The folder of the locks of one file's writers. Each file names its process, and says whether it is writing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: tuple[Path, int] | None = None

    def take(self, writer: str) -> None:
        """Hold this writer's lock from now on, if it is not held already. Raises ``OSError`` if that is impossible."""
        while self._held is None:
            path = self._path(writer)
            try:
                self._folder.mkdir()
            except FileExistsError:  # exist_ok would raise it, too, if the folder goes at this moment
                if self._folder.is_file():
                    raise
            with contextlib.suppress(FileNotFoundError):  # another writer, closing, removed the empty folder
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
                # Another's `gone` may have locked and removed the new file in between.
                if _lock(descriptor) and _is(path, descriptor):
                    self._held = (path, descriptor)
                    self._mark(_RESTS + f" process {os.getpid()} on {socket.gethostname()}".encode())
                else:
                    os.close(descriptor)

    def release(self) -> None:
        """Release the lock and remove its file."""
        if self._held is None:
            return
        (path, descriptor), self._held = self._held, None
        os.close(descriptor)
        with contextlib.suppress(OSError):  # the next `gone` finds a leftover file unlocked, and removes it
            path.unlink()
            self._folder.rmdir()

    def gone(self, writers: Iterable[str]) -> list[str]:
        """Return the dead writers among ``writers``, and remove their locks."""
        dead: list[str] = []
        for writer in writers:
            path = self._path(writer)
            try:
                descriptor = os.open(path, os.O_RDWR)
            except FileNotFoundError:
                dead.append(writer)
            except PermissionError:
                continue  # another user's: this process cannot tell whether it lives
            else:
                if _lock(descriptor):
                    dead.append(writer)
                    _remove(path, descriptor)
                else:
                    os.close(descriptor)
        return dead

    def prepare(self, writer: str) -> None:
        """Hold this writer's lock, so that others can see when it writes."""
        self.take(writer)

    def begun(self) -> None:
        """Say that this process is writing the database."""
        with contextlib.suppress(OSError):  # a full disk: it only tells others whom they wait for
            self._mark(_WRITES)

    def ended(self) -> None:
        """Say that this process is not writing the database any more."""
        with contextlib.suppress(OSError):  # or the connection would not come back to its pool, and none could write
            self._mark(_RESTS)

    def holder(self) -> str | None:
        """Return the process that says it is writing the database, such as ``process 123 on host``, if any."""
        own_path = self._held and self._held[0]
        for path in self._files():
            if path == own_path:
                continue
            with contextlib.suppress(OSError), path.open("rb", buffering=0) as file:
                file.seek(_STATE_AT)
                state, _, named = file.read(_LONGEST).partition(b" ")
                if state == _WRITES and not _lock(file.fileno()):
                    return named.decode(errors="replace")
        return None

    def _mark(self, content: bytes) -> None:
        if self._held is not None:
            os.lseek(self._held[1], _STATE_AT, os.SEEK_SET)
            os.write(self._held[1], content)

    def sweep(self) -> None:
        """Remove the files of dead writers, for tidiness: liveness matters only for writers with open intents."""
        self.gone([path.stem for path in self._files()])

    def _files(self) -> list[Path]:
        try:
            return list(self._folder.glob("*.lock"))
        except FileNotFoundError:  # some versions of Python raise it where another writer removes the folder now
            return []

    def _path(self, writer: str) -> Path:
        return self._folder / f"{writer}.lock"


def _is(path: Path, descriptor: int) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove(path: Path, descriptor: int) -> None:
    """Remove a file whose lock is held, and release it; no other process may lock the file in between."""
    if sys.platform == "win32":  # refuses to remove an open file, and thereby guards a live writer's
        os.close(descriptor)
        with contextlib.suppress(PermissionError):
            path.unlink(missing_ok=True)
    else:
        path.unlink(missing_ok=True)
        os.close(descriptor)
