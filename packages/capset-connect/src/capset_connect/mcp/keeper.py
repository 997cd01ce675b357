"""The process above that of an MCP server, which ends all that the server has started, and then itself (spec 7, M2).

It is run by its path, with the server's command as arguments, and imports nothing of capset. On Linux, what descends
from it becomes its own child when a parent in between ends (``PR_SET_CHILD_SUBREAPER``), in any session: so a process
leaves it only by ending. Elsewhere it ends the server's own group of processes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

GRACE_SECONDS: Final = 2.0
"""How long a server may take to end once it was asked to, by SIGTERM to this process."""
_PR_SET_CHILD_SUBREAPER: Final = 36
_NOT_STARTED: Final = 126


def main() -> int:
    """Run the command in the arguments, and return its status once nothing of it is left."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Held back until there is a server to pass it on to.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    server = os.fork()
    if server == 0:
        _become(sys.argv[1:])

    def ask(_number: int, _frame: object) -> None:
        _signal_group(server, signal.SIGTERM)
        signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)

    def force(_number: int, _frame: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGALRM, force)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # the server's alone: their end is its end
        os.dup2(nothing, stream)
    pid = status = 0
    while pid != server:
        pid, status = os.waitpid(-1, 0)
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    _end_all(server)
    return os.waitstatus_to_exitcode(status) & 0xFF


def _become(command: list[str]) -> NoReturn:
    """Become the server: the leader of a session of its own, with the environment that this process was given."""
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and its children would
            signal.signal(number, signal.SIG_DFL)
        os.execve(command[0], command, _environment())  # noqa: S606  # what this process is for
    except OSError as error:
        os.write(2, f"cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(_NOT_STARTED)


def _environment() -> dict[bytes, bytes]:
    """Return the variables that this process was started with: Python may have added one for the locale."""
    try:
        block = Path("/proc/self/environ").read_bytes()
    except OSError:
        return dict(os.environb)
    return dict(entry.split(b"=", 1) for entry in block.split(b"\0") if b"=" in entry)


def _end_all(server: int) -> None:
    """Kill what the server has left: its group, and every process below this one, until there is none."""
    _signal_group(server, signal.SIGKILL)
    with suppress(ChildProcessError):  # there is none any more
        while True:
            for child in _children():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)  # its own children are this one's now


def _children() -> list[int]:
    """Return the children of this process, as Linux's ``/proc`` lists them; none elsewhere."""
    process_id, children = str(os.getpid()).encode(), list[int]()
    with suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
            with suppress(OSError):  # it has ended
                _, parent, *_ = Path(f"/proc/{name}/stat").read_bytes().rpartition(b") ")[2].split()
                if parent == process_id:
                    children.append(int(name))
    return children


def _signal_group(leader: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


if __name__ == "__main__":
    sys.exit(main())
