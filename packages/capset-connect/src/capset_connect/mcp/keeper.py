"""The parent process of an MCP server, which ends all processes that the server has started (spec 7, M2).

It is run by its path, with the server's command as arguments, and imports nothing of capset. On Linux, it is a child
subreaper (``PR_SET_CHILD_SUBREAPER``): descendants become its children when their parents end, in any session, so none
can escape. On other systems, it ends the server's process group.
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
"""How long a server may take to exit after SIGTERM to this process."""
_PR_SET_CHILD_SUBREAPER: Final = 36
_NOT_STARTED: Final = 126


def main() -> int:
    """Run the command in the arguments; return its exit status once all of its processes have ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Blocked until there is a server to forward it to.
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
    for stream in range(3):  # only the server keeps them open, so they close when it exits
        os.dup2(nothing, stream)
    pid = status = 0
    while pid != server:
        pid, status = os.waitpid(-1, 0)
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    _end_all(server)
    return os.waitstatus_to_exitcode(status) & 0xFF


def _become(command: list[str]) -> NoReturn:
    """Become the server: the leader of a new session, with the original environment of this process."""
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and children would inherit that
            signal.signal(number, signal.SIG_DFL)
        os.execve(command[0], command, _environment())  # noqa: S606  # the purpose of this process
    except OSError as error:
        os.write(2, f"cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(_NOT_STARTED)


def _environment() -> dict[bytes, bytes]:
    """Return the original environment of this process, to which Python may have added a locale variable."""
    try:
        block = Path("/proc/self/environ").read_bytes()
    except OSError:
        return dict(os.environb)
    return dict(entry.split(b"=", 1) for entry in block.split(b"\0") if b"=" in entry)


def _end_all(server: int) -> None:
    """Kill the server's remaining processes: its group, and all descendants of this process."""
    _signal_group(server, signal.SIGKILL)
    with suppress(ChildProcessError):  # no children are left
        while True:
            for child in _children():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)  # its children are now children of this process


def _children() -> list[int]:
    """Return the children of this process from Linux's ``/proc``; on other systems, none."""
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
