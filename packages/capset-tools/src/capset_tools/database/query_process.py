"""Processes that query PostgreSQL: reused, with limited memory, and with nothing of the host's but its libraries.

The driver's library reads a row completely before it passes it on, however large it is, so each query runs where the
kernel limits its memory. The URL, the query and the driver's environment variables are sent through stdin, which no
other process can read.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from threading import Lock, Timer
from typing import IO, Any, Final, cast

from capset import ToolError
from capset_tools.database.cancellation import Halt
from capset_tools.database.child.main import SIZE, QueryOrder, Start

AT_ONCE: Final = 4
"""How many queries a kernel runs at once, each in its own process with limited memory."""
_MOST_IDLE: Final = 2
"""How many idle processes are kept for reuse. A process that is idle for a minute ends by itself."""
_START_SECONDS: Final = 30.0
"""How long a process may take to load the driver, on a busy machine."""
_TERM_SECONDS: Final = 1.0
"""How long a process may take to cancel its query on the server before it is killed."""
_CHILD: Final = str(Path(__file__).with_name("child") / "__main__.py")
_OF_DRIVER: Final = ("HOME", "APPDATA", "SSL_CERT_FILE", "SSL_CERT_DIR", "KRB5CCNAME", "KRB5_CONFIG")
"""Environment variables that libpq reads in addition to its own, which begin with ``PG``."""
_SMALL: Final = 1_024


class ProcessEnded(Exception):
    """A process has ended without a response."""


class QueryProcess:
    """A process that runs queries one after another, for one thread at a time.

    Raises ``ProcessEnded`` if it does not start.
    """

    def __init__(self) -> None:
        _close_idle_at_exit()
        self._process = subprocess.Popen[bytes](
            [sys.executable, "-I", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"LC_ALL": "C", "MALLOC_ARENA_MAX": "2"}
            | {name: os.environ[name] for name in ("SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ},
            start_new_session=True,
        )
        self._is_ending = False
        self.has_answered = False
        environment = {name: text for name, text in os.environ.items() if name.startswith("PG") or name in _OF_DRIVER}
        path = [folder for folder in sys.path if Path(folder).is_absolute()]
        starting = Halt(_START_SECONDS)
        try:
            self._exchange(Start(path=path, environment=environment), starting, _SMALL)
        except BaseException:
            self.close()
            raise

    def ask(self, order: QueryOrder, halt: Halt, max_bytes: int) -> Mapping[str, Any]:  # JSON
        """Run an order and return the response, of at most ``max_bytes``. Raises ``ProcessEnded`` if there is none."""
        answer = self._exchange(order, halt, max_bytes)
        self.has_answered = True
        return answer

    @property
    def is_usable(self) -> bool:
        """Whether the process can take another order."""
        return not self._is_ending and self._process.poll() is None

    def close(self) -> None:
        """Kill the process and reap it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # stdin may hold data that it has not read
                cast("IO[bytes]", stream).close()

    def _end(self) -> None:
        """Interrupt the process, so that it cancels its query and ends; kill it after ``_TERM_SECONDS``."""
        if self._is_ending:
            return
        self._is_ending = True
        if sys.platform == "win32":
            self._process.kill()
            return
        self._process.send_signal(signal.SIGINT)
        timer = Timer(_TERM_SECONDS, self._process.kill)
        timer.daemon = True
        timer.start()

    def _exchange(self, message: Mapping[str, Any], halt: Halt, max_bytes: int) -> Mapping[str, Any]:  # JSON
        stdin, stdout = cast("tuple[IO[bytes], IO[bytes]]", (self._process.stdin, self._process.stdout))
        body = json.dumps(message).encode()
        try:
            with halt.ending(self._end):
                stdin.write(len(body).to_bytes(SIZE, "big") + body)
                stdin.flush()
                size = int.from_bytes(_exactly(stdout, SIZE), "big")
                if size > max_bytes:
                    raise EOFError
                answer = _exactly(stdout, size)
        except (OSError, EOFError):
            raise ProcessEnded from None
        return json.loads(answer.decode("utf-8", "surrogatepass"))


_idle: Final = list[QueryProcess]()
_idle_lock: Final = Lock()


def with_process(work: Callable[[QueryProcess], Mapping[str, Any]]) -> Mapping[str, Any]:  # JSON
    """Return the result of ``work`` with an idle or a new process, which is kept if it can be reused.

    Raises ``ToolError`` if no process starts. ``work`` may raise ``ProcessEnded``.
    """
    process = _taken() or _started()
    try:
        answer = work(process)
    except BaseException:
        process.close()
        raise
    with _idle_lock:
        is_kept = process.is_usable and len(_idle) < _MOST_IDLE
        if is_kept:
            _idle.append(process)
    if not is_kept:
        process.close()
    return answer


def _taken() -> QueryProcess | None:
    while True:
        with _idle_lock:
            if not _idle:
                return None
            process = _idle.pop()
        if process.is_usable:
            return process
        process.close()


def _started() -> QueryProcess:
    try:
        return QueryProcess()
    except (ProcessEnded, OSError):
        raise ToolError(
            "the process that queries PostgreSQL did not start: check that its user may start processes, and that "
            "psycopg can be imported",
            code="database_unavailable",
            status=503,
        ) from None


@cache
def _close_idle_at_exit() -> None:
    atexit.register(close_idle)


def close_idle() -> None:
    """Close all idle processes."""
    while (process := _taken()) is not None:
        process.close()


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError
    return data
