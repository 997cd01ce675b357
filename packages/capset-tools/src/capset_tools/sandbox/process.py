"""The child process of each run: started without the host's environment, limited, monitored and terminated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from threading import Lock
from time import monotonic, sleep, thread_time
from typing import IO, Final, cast

from capset_tools.sandbox.child import frames
from capset_tools.sandbox.child.frames import PACKAGES, Ending, Order, Stopped
from capset_tools.sandbox.jail_users import start_jail
from capset_tools.sandbox.process_trees import memory_at_most, memory_of, processes_below

_CHILD: Final = str(Path(__file__).with_name("child") / "__main__.py")
_START_SECONDS: Final = 30.0
"""How long a child may take to start the code, on a busy machine."""
_GRACE_SECONDS: Final = 1.0
"""How long beyond its time code may run before the process is killed. The interpreters stop it earlier and cleanly."""
_REST_SECONDS: Final = 20.0
"""How long a child may take to send the files once the code has ended."""
_TERM_SECONDS: Final = 0.5
_STEP: Final = 0.1
_WATCH_STEP: Final = 0.05
"""Minimum seconds between two measurements of the memory of a jail."""
_REST_OF_WATCH: Final = 10
"""Pause after a measurement, as a multiple of the time that it took, which is capset's own."""
_MOST_SHARED: Final = 4
"""Multiple of the memory limit at which a run is stopped by an upper bound that counts shared memory per process.

The upper bound is quick to read at any size. The exact figure is read page by page, and so less often.
"""
_OWN_BYTES: Final = 32 << 20
"""Memory of the jail's own processes, in bytes."""
_PACKAGE_BYTES: Final = 128 << 20
"""Memory that packages take once they are loaded, in bytes, before there is any value."""
_CHUNK: Final = 1 << 16
_STDERR: Final = 4_096
_SLACK: Final = 1 << 20
_CODES: Final[Mapping[int, Stopped]] = {signal.SIGXCPU: "time"} if hasattr(signal, "SIGXCPU") else {}
_NO_MEMORY: Final = (b"memory allocation of", b"MemoryError")


class Spoiled(Exception):
    """A child violated the protocol."""


@dataclass(slots=True)
class Outcome:
    """The output of a child: untrusted data, which the code may have influenced."""

    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    ending: Ending | None = None
    stopped: Stopped | None = None
    """The reason why there is no ending."""
    words: bytes = b""
    """The end of the process's own stderr, for the log."""


class ChildRun:
    """One run, for use by one thread; ``stop`` may be called from another thread at any time.

    ``command`` starts the child in a jail. Without it, this interpreter runs the child.
    """

    def __init__(self, order: Order, contents: Mapping[str, bytes], command: Sequence[str] = ()) -> None:
        self._order = order
        self._command = [*command] or [sys.executable, "-I", _CHILD]
        self._unsent = b"".join(frames.request(order, contents))
        self._sent = 0
        self._read = bytearray()
        self._deadline = monotonic() + _START_SECONDS
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()
        self._is_stopped = False
        self._steps: set[bytes] = set()
        self._next_look = self._next_exact_look = 0.0
        limits = order["limits"]
        has_packages = any(part.startswith(f"{PACKAGES}/") for part in command)
        self._is_watched = order["backend"] == "isolated-bash" or has_packages
        """Whether the total memory of its processes is measured; for Python without packages, the system limits it."""
        self._most_memory = limits["memory_bytes"] + _OWN_BYTES
        if has_packages:
            self._most_memory += _PACKAGE_BYTES + 2 * limits["max_bytes"]  # the files before and after
        self._allowed = 4 * limits["output_bytes"] * 6 + limits["max_bytes"] + 12_288 * limits["max_files"] + _SLACK
        self._files_bytes = 0
        self._outcome = Outcome()

    def stop(self) -> None:
        """End the run, since its result is no longer needed."""
        with self._lock:
            self._is_stopped = True
            self._kill(signal.SIGTERM)

    def outcome(self) -> Outcome:
        """Start the child, wait for its end and return its output. No process is left afterwards."""
        outcome = self._outcome
        with self._lock:
            if self._is_stopped:
                outcome.stopped = "time"
                return outcome
        is_jail = self._command[0] != sys.executable
        process = (start_jail if is_jail else subprocess.Popen[bytes])(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd="/",
            env={"MALLOC_ARENA_MAX": "2"},
            start_new_session=True,
        )
        with self._lock:
            self._process = process
            if self._is_stopped:
                self._kill(signal.SIGTERM)
        with process:
            try:
                self._listen(process)
            except Spoiled:
                outcome.stopped = "crash"
            finally:
                self._end(process)
        if outcome.ending is None and outcome.stopped is None:
            outcome.stopped = self._reason(process.returncode)
        return outcome

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Exchange data with the child until it is done, closes its stdout, or has to be stopped."""
        pipes = cast("tuple[IO[bytes], IO[bytes], IO[bytes]]", (process.stdin, process.stdout, process.stderr))
        stdin, stdout, stderr = pipes
        with DefaultSelector() as selector:
            for stream, event in ((stdin, EVENT_WRITE), (stdout, EVENT_READ), (stderr, EVENT_READ)):
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, event)
            step = _WATCH_STEP if self._is_watched else _STEP
            while self._outcome.ending is None:
                remaining = self._deadline - monotonic()
                if remaining <= 0 or self._is_stopped:
                    self._outcome.stopped = "time"
                    return
                if self._is_watched and self._exceeds_memory(process.pid):
                    self._outcome.stopped = "memory"
                    return
                for key, _ in selector.select(min(remaining, step)):
                    stream = cast("IO[bytes]", key.fileobj)
                    if stream is stdin:
                        if not self._send(stream):
                            selector.unregister(stream)
                        continue
                    data = os.read(stream.fileno(), _CHUNK)
                    if stream is stderr:
                        self._outcome.words = (self._outcome.words + data)[-_STDERR:]
                    elif data:
                        self._take(data)
                    if not data:
                        selector.unregister(stream)
                        if stream is stdout:
                            return

    def _exceeds_memory(self, pid: int) -> bool:
        """Whether all processes of a jail together exceed the memory limit. Measures it only from time to time."""
        if monotonic() < self._next_look:
            return False
        began = thread_time()
        pids = processes_below(pid)
        limit, at_most = self._most_memory, memory_at_most(pids)
        self._next_look = monotonic() + max(_WATCH_STEP, _REST_OF_WATCH * (thread_time() - began))
        if at_most <= limit or at_most > _MOST_SHARED * limit:
            return at_most > limit
        if monotonic() < self._next_exact_look:
            return False
        began = thread_time()
        is_over = memory_of(pids) > limit
        self._next_exact_look = monotonic() + _REST_OF_WATCH * (thread_time() - began)
        return is_over

    def _send(self, stream: IO[bytes]) -> bool:
        """Send more of the request, and return whether there is more. stdin is left open."""
        try:
            self._sent += os.write(stream.fileno(), self._unsent[self._sent : self._sent + _CHUNK])
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False  # it has ended; its other streams and its status show how
        return self._sent < len(self._unsent)

    def _take(self, data: bytes) -> None:
        """Process received data, frame by frame. Raises ``Spoiled`` for an invalid frame, or too much data."""
        self._allowed -= len(data)
        if self._allowed < 0:
            raise Spoiled
        self._read += data
        while len(self._read) >= frames.HEAD.size:
            kind, size = frames.HEAD.unpack_from(self._read)
            end = frames.HEAD.size + size
            if len(self._read) < end:
                return
            payload = bytes(self._read[frames.HEAD.size : end])
            del self._read[:end]
            try:
                self._frame(kind, payload)
            except ValueError as error:  # invalid JSON and invalid UTF-8 are ValueErrors too
                raise Spoiled from error

    def _frame(self, kind: bytes, payload: bytes) -> None:
        outcome, limits = self._outcome, self._order["limits"]
        if kind in (frames.STARTED, frames.ENDED):
            if kind in self._steps:
                raise ValueError("duplicate start or end frame")
            self._steps.add(kind)
        if kind == frames.STARTED:
            self._deadline = monotonic() + limits["seconds"] + _GRACE_SECONDS
        elif kind == frames.ENDED:
            self._deadline = monotonic() + _REST_SECONDS
        elif kind == frames.STDOUT:
            outcome.stdout += payload
        elif kind == frames.STDERR:
            outcome.stderr += payload
        elif kind == frames.FILE:
            path, content = frames.unpacked_file(payload)
            outcome.files[path] = content
            self._files_bytes += len(content)
        elif kind == frames.DONE:
            ending = frames.read_ending(payload)
            if any(len((ending[name] or "").encode()) > limits["output_bytes"] for name in ("value", "error")):
                raise ValueError("the value or the error exceeds the output limit")
            outcome.ending = ending
        else:
            raise ValueError(f"unknown frame kind {kind!r}")
        if len(outcome.files) > limits["max_files"] or self._files_bytes > limits["max_bytes"]:
            raise ValueError("there are more files, or larger ones, than a run may have")
        if max(len(outcome.stdout), len(outcome.stderr)) > limits["output_bytes"]:
            raise ValueError("the output exceeds its limit")

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """End the child and all processes it started, and reap it."""
        if self._outcome.ending is None:
            with self._lock:
                self._kill(signal.SIGTERM)
            self._wait(process, _TERM_SECONDS)
        elif self._command[0] != sys.executable:
            end = monotonic() + _TERM_SECONDS  # a jail ends by itself; not reaped here, its id stays valid
            while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) and monotonic() < end:
                sleep(_STEP / 50)
        with self._lock:
            self._kill(signal.SIGKILL)
            process.wait()
            self._process = None

    def _wait(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        """Wait until the child has closed its end. It is not reaped yet, so that its process id stays valid."""
        end = monotonic() + seconds
        with DefaultSelector() as selector:
            stdout = cast("IO[bytes]", process.stdout).fileno()
            selector.register(stdout, EVENT_READ)
            while selector.select(max(end - monotonic(), 0)) and os.read(stdout, _CHUNK):
                if monotonic() >= end:
                    return

    def _kill(self, number: signal.Signals) -> None:
        """Send a signal to the child's process group. Hold the lock, so that the process id is still valid."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                return  # the group is empty

    def _reason(self, status: int) -> Stopped:
        """Return why a child ended without a final frame."""
        if any(words in self._outcome.words for words in _NO_MEMORY):
            return "memory"
        return _CODES.get(-status, "crash")
