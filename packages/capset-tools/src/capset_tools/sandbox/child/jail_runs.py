"""Runs of CPython or bash in a jail, whose first process watches their output, time and files."""

from __future__ import annotations

import codecs
import json
import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import Final, Literal, cast

from capset_tools.sandbox.child.frames import Order, RunLimits, Stopped
from capset_tools.sandbox.child.guests import run_guest
from capset_tools.sandbox.child.jail_files import SCRIPTS
from capset_tools.sandbox.child.output import Printer, RunEnded
from capset_tools.sandbox.child.system_calls import hide_process

_Stream = Literal["stdout", "stderr", "report"]
_STEP: Final = 0.05
"""How often, in seconds, the number of files is checked; nothing else limits it while the code runs."""
_CHUNK: Final = 1 << 16
_SPARE: Final = 10_000
"""How many files and directories beyond its limit a run may have before it is stopped."""
_REPORT: Final = 1 << 24
_TAIL: Final = 4_096
_NO_PROCESS: Final = (": fork: retry: Resource temporarily unavailable", "RuntimeError: can't start new thread")
"""Messages of bash, and of Python started by it, if the system starts no further process or thread."""
_NO_MEMORY: Final = ("alloc: cannot allocate", "memory exhausted", "Cannot allocate memory")
"""Messages of bash and its commands if they cannot allocate memory."""


def run_jailed(order: Order, printer: Printer, source: int) -> RunEnded:
    """Run code and return how it ended. If the descriptor ``source`` is closed, this process exits."""
    return _JailRun(order, printer, source).ended()


class _JailRun:
    def __init__(self, order: Order, printer: Printer, source: int) -> None:
        self._order = order
        self._limits: RunLimits = order["limits"]
        self._printer = printer
        self._source = source
        self._decoders = {
            stream: codecs.getincrementaldecoder("utf-8")(errors="replace") for stream in ("stdout", "stderr")
        }
        self._report = bytearray()
        self._complaints = ""
        self._is_bash = order["backend"] == "isolated-bash"
        self._places = ("/", SCRIPTS) if self._is_bash else ("/",)
        """Where the code can create files."""
        self._most = _inodes(self._places) + self._limits["max_files"] + _SPARE
        self._status: int | None = None
        self._size = 0

    def ended(self) -> RunEnded:
        """Run the code until it ends or hits a limit. No process but this one is left in the jail."""
        (stdout, stdout_writer), (stderr, complained) = os.pipe(), os.pipe()
        report, reported = os.pipe()
        writers = stdout_writer, complained, reported
        hide_process()  # otherwise code in bash could send frames in its place
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the default action does not kill the first process
        pid = os.fork()
        if pid == 0:
            run_guest(self._order, *writers)
        for writer in writers:
            os.close(writer)
        streams: dict[int, _Stream] = {stdout: "stdout", stderr: "stderr", report: "report"}
        self._printer.start()
        deadline = monotonic() + self._limits["seconds"]
        stopped = self._watch(pid, streams, deadline)
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # all processes of the jail except this one, the first
        while self._status is None:
            self._reap(pid, wait=True)
        with suppress(ChildProcessError):
            while True:
                os.wait()  # reap all others, so that no file changes afterwards
        self._printer.end()
        return self._told(stopped, os.waitstatus_to_exitcode(self._status))

    def _watch(self, pid: int, streams: dict[int, _Stream], deadline: float) -> Stopped | None:
        """Read output until the code has ended and closed its streams. Return the limit that it hit before, if any."""
        poll = select.poll()
        for descriptor in (*streams, self._source):
            poll.register(descriptor, select.POLLIN)
        while streams or self._status is None:
            remaining = deadline - monotonic()
            if remaining <= 0:
                return "time"
            step = _STEP if streams else _STEP / 10  # its streams are closed: only its exit is left
            for descriptor, _event in poll.poll(min(remaining, step) * 1000):
                data = os.read(descriptor, _CHUNK)
                if descriptor == self._source:
                    if not data:
                        os._exit(1)  # the parent no longer waits for the result
                elif not data:
                    poll.unregister(descriptor)
                    streams.pop(descriptor)
                elif not self._take(streams[descriptor], data):
                    return "output"
            if self._is_bash and any(words in self._complaints for words in _NO_PROCESS):
                return "processes"
            if self._has_too_many_files():
                return "files"
            self._reap(pid)
        return None

    def _has_too_many_files(self) -> bool:
        return _inodes(self._places) > self._most

    def _reap(self, pid: int, *, wait: bool = False) -> None:
        """Reap ended processes: that of the code, and those it left behind, which this process has inherited."""
        with suppress(ChildProcessError):
            while True:
                ended, status, usage = os.wait4(-1, 0 if wait else os.WNOHANG)
                if ended == pid and self._status is None:  # its pid may be reused later
                    self._status, self._size = status, usage.ru_maxrss * 1024
                if not ended or (wait and self._status is not None):
                    return

    def _take(self, name: _Stream, data: bytes) -> bool:
        """Forward output, and return whether the code may continue."""
        if name == "report":
            self._report += data
            return len(self._report) <= _REPORT
        text = self._decoders[name].decode(data)
        if name == "stderr":
            self._complaints = (self._complaints + text)[-_TAIL:]
        return self._printer.write(name, text)

    def _told(self, stopped: Stopped | None, status: int) -> RunEnded:
        """Return how the code ended, by its status and its report, which the code itself could have forged."""
        if stopped is not None:
            return RunEnded(None, stopped=stopped)
        if self._is_bash:
            if status and any(words in self._complaints for words in _NO_MEMORY):
                return RunEnded(None, stopped="memory")
            if _is_full():
                return RunEnded(None, stopped="files")
            return RunEnded(128 - status if status < 0 else status)
        value, error, limit = _read_report(self._report)
        if limit in ("memory", "files", "processes"):
            return RunEnded(None, error=error, stopped=limit)
        if status < 0:  # an interpreter that runs out of memory may crash
            is_full = self._size > self._limits["memory_bytes"] * 3 // 4
            return RunEnded(None, stopped="time" if -status == signal.SIGXCPU else "memory" if is_full else "crash")
        return RunEnded(status, value=value, error=error)


def _read_report(report: bytes | bytearray) -> tuple[str | None, str | None, str | None]:
    """Return the value, the error and the limit in a report; each is ``None`` if it is missing or invalid."""
    parsed: object = None
    with suppress(ValueError):
        parsed = json.loads(report)
    members = cast("list[object]", parsed) if isinstance(parsed, list) else []
    value, error, limit = (
        member if isinstance(member, str) else None for member in (*members[:3], None, None, None)[:3]
    )
    return value, error, limit


def _inodes(places: Iterable[str]) -> int:
    """Return the number of files and directories on some file systems of the jail."""
    return sum(file_system.f_files - file_system.f_ffree for file_system in map(os.statvfs, places))


def _is_full() -> bool:
    """Return whether nothing more can be written."""
    return not os.statvfs("/").f_bavail
