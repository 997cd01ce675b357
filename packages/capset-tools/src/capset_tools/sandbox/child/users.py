"""The user of a jail, the mounts hidden from it, and the kernel's limit on its processes and threads."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from typing import Final

from capset_tools.sandbox.child.frames import USER

_PR_SET_PDEATHSIG: Final = 1
_CLONE_NEWNS: Final = 0x00020000
_OPEN_TREE: Final = 428
"""The number of the system call, the same on every machine."""
_AT_FDCWD, _OPEN_TREE_CLONE, _AT_RECURSIVE = -100, 0x1, 0x8000
_CAPABILITY_VERSION: Final = 0x20080522


def become_user(*places: str) -> None:
    """Hide the mounts from ``/proc`` and, if this process is root in its namespace, become the jail's user for good.

    ``places`` are file systems of the jail, whose directories are then given to the user. Raises ``OSError`` if the
    system does not allow it.
    """
    if os.path.isdir("/proc"):  # noqa: PTH112
        _hide_mounts()
        if os.getuid():  # root loses its own when it becomes another user
            _drop_capabilities()
    if os.getuid():
        return
    for place in places:
        if os.path.isdir(place):  # noqa: PTH112
            _give(place, os.stat(place).st_dev)  # noqa: PTH116
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    # The kernel clears this setting when a process becomes another user (prctl(2)).
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _hide_mounts() -> None:
    """Move this process and its future children to a copy of the file systems that is mounted nowhere.

    ``mountinfo``, ``mounts`` and ``mountstats`` of a process list the mounts of its namespace below its root, with
    their paths on the host. Below the new root there are none, so these files are empty.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    # A new mount namespace, since that of the jail may belong to a user namespace above this process's own.
    _checked(libc.unshare(_CLONE_NEWNS))
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    path = ctypes.c_char_p(b"/")
    tree = _checked(
        libc.syscall(ctypes.c_long(_OPEN_TREE), ctypes.c_long(_AT_FDCWD), path, ctypes.c_long(flags))
    )  # left open: the copy exists as long as the descriptor
    os.fchdir(tree)
    os.chroot(".")
    os.chdir("/")


def _drop_capabilities() -> None:
    """Drop the capabilities that this process got for ``_hide_mounts``."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _checked(ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def bound_tasks(max_tasks: int) -> None:
    """Limit the user to this many processes and threads, including the jail's first process."""
    resource.setrlimit(resource.RLIMIT_NPROC, (max_tasks, max_tasks))


def are_tasks_bounded() -> bool:
    """Whether the kernel enforces such a limit for this user: with a limit of 1, no further process can start."""
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
