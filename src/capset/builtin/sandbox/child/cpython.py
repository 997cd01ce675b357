"""Python code, run by CPython itself, in a process of its own within the jail; the file system there has the files."""

from __future__ import annotations

import codecs
import json
import os
import select
import signal
import stat
import sys
from contextlib import suppress
from time import monotonic, sleep
from typing import Final, Literal, cast

from capset.builtin.sandbox.child.frames import RunLimits, Stopped
from capset.builtin.sandbox.child.guest import run_guest
from capset.builtin.sandbox.child.output import LeftFiles, Printer, RunEnded

_STEP: Final = 0.05
"""How often, in seconds, the number of files is looked at: nothing else bounds it while the code runs."""
_CHUNK: Final = 1 << 16
_SPARE: Final = 10_000
"""How many files and directories there may be, beside those that a run may have, before it is stopped."""
_REPORT: Final = 1 << 24
_OWN: Final = frozenset({"/.runtime", "/dev"})
"""What the jail has of its own: the interpreter, and devices."""
_RESERVED: Final = "this path is one of the interpreter's own"


def place_files(contents: dict[str, bytes]) -> dict[str, str]:
    """Write the files of a run, and return the reasons by path why some could not be."""
    not_shown: dict[str, str] = {}
    for path, content in contents.items():
        if _is_own(path):
            not_shown[path] = _RESERVED
            continue
        try:
            os.makedirs(path.rpartition("/")[0] or "/", exist_ok=True)  # noqa: PTH103
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb") as file:
                file.write(content)
        except OSError as error:
            not_shown[path] = error.strerror or type(error).__name__
    return not_shown


def run_code(code: str, limits: RunLimits, printer: Printer, source: int) -> RunEnded:
    """Run code, and return how it ended. The end of ``source``, a descriptor, ends this process."""
    return _Run(code, limits, printer, source).ended()


def left_files(limits: RunLimits) -> LeftFiles:
    """Return the files that there are. Raises ``OverflowError`` if they are more, or larger, than a run may have."""
    left, size = LeftFiles({}, {}, set()), 0
    folders = [""]
    while folders:
        folder = folders.pop()
        for entry in _entries(folder or "/", left):
            path = f"{folder}/{entry.name}"
            if path in _OWN:
                continue
            if entry.is_dir(follow_symlinks=False):
                left.folders.add(path)
                folders.append(path)
                continue
            content = _content(path, limits["max_bytes"] - size, left)
            if content is not None:
                left.files[path] = content
                size += len(content)
            if len(left.files) + len(left.not_kept) > limits["max_files"]:
                raise OverflowError("too many files")
    return left


def _is_own(path: str) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in _OWN)


def _entries(folder: str, left: LeftFiles) -> list[os.DirEntry[str]]:
    try:
        os.chmod(folder, 0o700)  # noqa: PTH101  # the code may have closed it, and it is ours
        with os.scandir(folder) as found:
            return [*found]
    except OSError as error:
        left.not_kept[folder] = error.strerror or type(error).__name__
        return []


def _content(path: str, room: int, left: LeftFiles) -> bytes | None:
    """Return the content of a regular file; what is no such file is noted. Raises ``OverflowError``."""
    try:
        kind = os.lstat(path)
        if not stat.S_ISREG(kind.st_mode):
            left.not_kept[path] = f"it is no regular file, but a {_kind_of(kind.st_mode)}"
            return None
        if kind.st_size > room:  # a sparse file may be far larger than the file system
            raise OverflowError("too large")
        os.chmod(path, 0o600)  # noqa: PTH101
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError as error:
        left.not_kept[path] = error.strerror or type(error).__name__
        return None


def _kind_of(mode: int) -> str:
    kinds = {stat.S_IFLNK: "symlink", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "special file")


class _Run:
    """One run: the process of the code, its output, its time, and the number of its files."""

    def __init__(self, code: str, limits: RunLimits, printer: Printer, source: int) -> None:
        self._code = code
        self._limits = limits
        self._printer = printer
        self._source = source
        self._decoders = {one: codecs.getincrementaldecoder("utf-8")(errors="replace") for one in ("stdout", "stderr")}
        self._report = bytearray()
        self._most = _inodes() + limits["max_files"] + _SPARE

    def ended(self) -> RunEnded:
        """Run the code to its end, or to that of a limit."""
        (stdout, told), (stderr, complained), (report, reported) = (os.pipe() for _ in range(3))
        writers = told, complained, reported
        pid = os.fork()
        if pid == 0:
            run_guest(self._code, self._limits, *writers)
        for writer in writers:
            os.close(writer)
        self._printer.start()
        deadline = monotonic() + self._limits["seconds"]
        stopped = self._listen(stdout, stderr, report, deadline)
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        while not ended and stopped is None:  # it has closed all that it could tell by
            sleep(_STEP / 10)
            ended, status, usage = os.wait4(pid, os.WNOHANG)
            stopped = "time" if monotonic() > deadline else None
        if not ended:
            os.kill(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
        self._printer.end()
        return self._told(stopped, os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)

    def _listen(self, stdout: int, stderr: int, report: int, deadline: float) -> Stopped | None:
        """Take what the process says until it has closed all, and return the limit that ended it before."""
        streams: dict[int, Literal["stdout", "stderr", "report"]] = {
            stdout: "stdout",
            stderr: "stderr",
            report: "report",
        }
        poll = select.poll()
        for one in (*streams, self._source):
            poll.register(one, select.POLLIN)
        while streams:
            left = deadline - monotonic()
            if left <= 0:
                return "time"
            for descriptor, _ in poll.poll(min(left, _STEP) * 1000):
                data = os.read(descriptor, _CHUNK)
                if descriptor == self._source:
                    if not data:
                        os._exit(1)  # whoever waits for the result is gone
                elif not data:
                    poll.unregister(descriptor)
                    streams.pop(descriptor)
                elif not self._take(streams[descriptor], data):
                    return "output"
            if _inodes() > self._most:
                return "files"
        return None

    def _take(self, name: Literal["stdout", "stderr", "report"], data: bytes) -> bool:
        """Pass on output, and return whether the code may go on."""
        if name == "report":
            self._report += data
            return len(self._report) <= _REPORT
        return self._printer.write(name, self._decoders[name].decode(data))

    def _told(self, stopped: Stopped | None, status: int, size: int) -> RunEnded:
        """Return how the code ended: by what it reported, which the code could have written, and by its status.

        An interpreter that can allocate no more may die of that; ``size`` is what it took at most.
        """
        if stopped is not None:
            return RunEnded(None, stopped=stopped)
        value, error, limit = _read_report(self._report)
        if limit in ("memory", "files"):
            return RunEnded(None, error=error, stopped=limit)
        if status < 0:
            is_full = size > self._limits["memory_bytes"] * 3 // 4
            return RunEnded(None, stopped="time" if -status == signal.SIGXCPU else "memory" if is_full else "crash")
        return RunEnded(status, value=value, error=error)


def _read_report(report: bytes | bytearray) -> tuple[str | None, str | None, str | None]:
    """Return the value, the error and the limit in a report; nothing of one that is none."""
    found: object = None
    with suppress(ValueError):
        found = json.loads(report)
    told = cast("list[object]", found) if isinstance(found, list) else []
    value, error, limit = (one if isinstance(one, str) else None for one in (*told[:3], None, None, None)[:3])
    return value, error, limit


def _inodes() -> int:
    """Return the number of files and directories on the jail's file system."""
    found = os.statvfs("/")
    return found.f_files - found.f_ffree


if sys.platform != "linux":  # pragma: no cover  # there is no such jail elsewhere
    raise ImportError("the jail needs Linux")
