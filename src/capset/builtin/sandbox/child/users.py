"""The user of a jail, and the kernel's bound on its processes and threads."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from typing import Final

from capset.builtin.sandbox.child.frames import USER

_PR_SET_PDEATHSIG: Final = 1


def become_user(*places: str) -> None:
    """Become the user of the jail for good, where this is root of its namespace.

    ``places`` are file systems of the jail, whose directories then belong to the user.
    """
    if os.getuid():
        return
    for place in places:
        if os.path.isdir(place):  # noqa: PTH112
            _give(place, os.stat(place).st_dev)  # noqa: PTH116
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    # The kernel forgets it when a process becomes another user (prctl(2)).
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def bound_tasks(most: int) -> None:
    """Let the user have this many processes and threads, the first process of the jail among them."""
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def are_tasks_bounded() -> bool:
    """Whether the kernel holds this user to a limit: with one of 1, no further process can be started."""
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, before[1]))
    try:
        pid = os.fork()
    except OSError:
        return True
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, before)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return False


def _give(folder: str, device: int) -> None:
    os.chown(folder, USER, USER)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_dev == device:
                _give(entry.path, device)
