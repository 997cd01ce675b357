"""Python code run by Monty, a subset of the language, in Monty's own process, on the files of a tree."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import PurePosixPath
from time import monotonic
from typing import Any, Final, Literal

from pydantic_monty import (
    AbstractOS,
    Monty,
    MontyCrashedError,
    MontyFileHandle,
    MontyRuntimeError,
    MontySyntaxError,
    StatResult,
)

from capset_tools.sandbox.child.frames import RunLimits, Stopped
from capset_tools.sandbox.child.monty_gaps import PRELUDE, refusal_of
from capset_tools.sandbox.child.output import Printer, RunEnded
from capset_tools.sandbox.child.tree import FileTree, TreeFull

_SUSPENSIONS: Final = 1 << 40
"""How often the code may access a file or the clock. The time limit is the effective one."""
_ENTROPY: Final = 1 << 20
_TIME: Final = "TimeoutError: feed time limit exceeded"
_GONE: Final = "MemoryError: the worker exceeded its memory limit"
_SLEEP: Final = "TimeoutError: sleep limit exceeded"
_MEMORY: Final = "MemoryError: memory limit exceeded"


class TreeAccess(AbstractOS):
    """The interpreter's access to the system: the tree's files, an empty environment, and nothing else.

    Arguments and results are those of the base class: texts, or bytes for a file opened in binary mode.
    """

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree
        self.is_full = False
        self.max_urandom_bytes = _ENTROPY

    def path_exists(self, path: PurePosixPath) -> bool:
        return self._tree.exists(path)

    def path_is_file(self, path: PurePosixPath) -> bool:
        return path in self._tree.files

    def path_is_dir(self, path: PurePosixPath) -> bool:
        return path in self._tree.folders

    def path_is_symlink(self, path: PurePosixPath) -> bool:
        return False

    def path_open(self, path: PurePosixPath, mode: str) -> MontyFileHandle:
        handle = MontyFileHandle(str(path), mode)  # first, since it checks the mode
        action = handle.mode[0]
        if action == "r":
            self._tree.content(path)
        elif action == "w":
            self._write(path, b"")
        else:
            self._write(path, b"", append=True)
        return handle

    def path_read_text(self, path: PurePosixPath | MontyFileHandle) -> str:
        return self._tree.content(_place(path)).decode()

    def path_read_bytes(self, path: PurePosixPath | MontyFileHandle) -> bytes:
        return bytes(self._tree.content(_place(path)))

    def path_write_text(self, path: PurePosixPath | MontyFileHandle, data: str) -> int:
        self._write(_place(path), data.encode())
        return len(data)

    def path_write_bytes(self, path: PurePosixPath | MontyFileHandle, data: bytes) -> int:
        self._write(_place(path), data)
        return len(data)

    def path_append_text(self, path: PurePosixPath | MontyFileHandle, data: str) -> int:
        self._write(_place(path), data.encode(), append=True)
        return len(data)

    def path_append_bytes(self, path: PurePosixPath | MontyFileHandle, data: bytes) -> int:
        self._write(_place(path), data, append=True)
        return len(data)

    def path_mkdir(self, path: PurePosixPath, parents: bool, exist_ok: bool) -> None:
        self._filling(lambda: self._tree.mkdir(path, parents=parents, exist_ok=exist_ok))

    def path_unlink(self, path: PurePosixPath) -> None:
        self._tree.unlink(path)

    def path_rmdir(self, path: PurePosixPath) -> None:
        self._tree.rmdir(path)

    def path_iterdir(self, path: PurePosixPath) -> list[PurePosixPath]:
        return [path / name for name in self._tree.names(path)]

    def path_stat(self, path: PurePosixPath) -> StatResult:
        if path in self._tree.folders:
            return StatResult.dir_stat(mtime=0)
        return StatResult.file_stat(size=len(self._tree.content(path)), mtime=0)

    def path_rename(self, path: PurePosixPath, target: PurePosixPath) -> None:
        self._tree.rename(path, target)

    def path_resolve(self, path: PurePosixPath) -> str:
        return str(path)

    def path_absolute(self, path: PurePosixPath) -> str:
        return str(path)

    def getenv(self, key: str, default: str | None = None) -> str | None:
        return default

    def get_environ(self) -> dict[str, str]:
        return {}

    def _write(self, path: PurePosixPath, data: bytes, *, append: bool = False) -> None:
        self._filling(lambda: self._tree.write(path, data, append=append))

    def _filling(self, change: Callable[[], None]) -> None:
        try:
            change()
        except TreeFull:
            self.is_full = True
            raise


def run_python(code: str, tree: FileTree, limits: RunLimits, printer: Printer) -> RunEnded:
    """Run code and return how it ended; ``value`` is the ``repr`` of its last line's value, if that is not ``None``."""
    if (refusal := refusal_of(code)) is not None:
        printer.start()
        printer.end()
        return RunEnded(1, error=refusal)
    access = TreeAccess(tree)
    is_gone, began = False, 0.0
    seconds = limits["seconds"]
    try:
        with (
            Monty(max_processes=1, request_timeout=seconds + 0.5) as pool,
            pool.checkout(
                limits={
                    "max_feed_duration_secs": seconds,
                    "max_total_sleep_secs": seconds,
                    "max_memory": limits["memory_bytes"],
                    "max_suspensions": _SUSPENSIONS,
                },
                os_policy={"sleep_system_max": seconds + 1},
            ) as session,
        ):
            worker = session.worker_pid or 0

            def printed(stream: Literal["stdout", "stderr"], text: str) -> None:
                if not printer.write(stream, text) and worker:
                    os.kill(worker, signal.SIGKILL)  # otherwise it would go on printing until its time is up

            session.feed_run(PRELUDE, os=access)
            printer.start()
            began = monotonic()
            try:
                value: Any = session.feed_run(code, print_callback=printed, os=access, cwd="/")
            finally:
                is_gone = session.worker_pid is None
                printer.end()
    except (MontyRuntimeError, MontySyntaxError) as error:
        is_late = began > 0 and monotonic() - began >= seconds
        named = _named(str(error), is_late=is_late, is_gone=is_gone)
        stopped = _limit(access, printer, named) or ("crash" if is_gone else None)
        return RunEnded(1, error=error.display(), stopped=stopped)
    except MontyCrashedError as error:
        stopped = _limit(access, printer) or ("time" if error.timed_out else "crash")
        return RunEnded(None, stopped=stopped)
    return RunEnded(0, value=None if value is None else _safe_repr(value), stopped=_limit(access, printer))


def _limit(access: TreeAccess, printer: Printer, named: Stopped | None = None) -> Stopped | None:
    """Return the limit that was hit; ``named`` is the interpreter's own report."""
    if printer.is_over:
        return "output"
    return named or ("files" if access.is_full else None)


def _named(words: str, *, is_late: bool, is_gone: bool) -> Stopped | None:
    """Return the limit that an exception indicates, by the beginning of its message.

    Code can raise an exception with the same message, and Monty cannot tell them apart. So if the message says that
    the time is up or the interpreter is gone, that must really be so. Too long a sleep and too large a value are
    refused in advance and leave no other trace; code that fakes these loses only its own changes.
    """
    if words.startswith(_SLEEP) or (is_late and words.startswith(_TIME)):
        return "time"
    return "memory" if words.startswith(_MEMORY) or (is_gone and words.startswith(_GONE)) else None


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except (RecursionError, ValueError):  # nested too deeply; more digits than Python writes
        return f"<{type(value).__name__}, too large to be shown>"


def _place(path: PurePosixPath | MontyFileHandle) -> PurePosixPath:
    return PurePosixPath(path.path) if isinstance(path, MontyFileHandle) else path
