"""Starts jails, with a user whose tasks the kernel limits.

The kernel applies ``RLIMIT_NPROC`` to the tasks of all users except the system's root (``copy_process`` in Linux's
``kernel/fork.c``). If capset is root, the user of a jail is therefore mapped to an id that is used nowhere else.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from capset_tools.sandbox.child.frames import USER

_OF_ROOT: Final = ("CAP_SETUID", "CAP_SETGID", "CAP_CHOWN")
_OF_MOUNTS: Final = ("CAP_SYS_ADMIN", "CAP_SYS_CHROOT")
_FIRST_TO_END: Final = ("/bin/sh", "-c", '{ echo 1000 > /proc/self/oom_score_adj; } 2> /dev/null; exec "$@"', "sh")
"""Starts a program that the kernel kills first when memory runs out, before capset and everything else.

The same holds for all its children.
"""
_HIGHEST_ID: Final = 2_147_000_000
_START_SECONDS: Final = 30.0
"""How long bubblewrap may take to create its namespaces, on a busy machine."""


def user_options(*, has_proc: bool) -> list[str]:
    """Return bubblewrap's options for the user of a jail.

    If capset is root, the jail's first process starts as root of the namespace, and then becomes the user. If there is
    a ``/proc``, it also hides the mounts. It drops the capabilities for both afterwards (``child.users``).
    """
    is_root = _unused_ids() is not None
    names = [*(_OF_ROOT if is_root else ()), *(_OF_MOUNTS if has_proc else ())]
    options = ["--cap-drop", "ALL", *(part for name in names for part in ("--cap-add", name))]
    return options if is_root else ["--disable-userns", *options, "--uid", str(USER), "--gid", str(USER)]


def start_jail(command: Sequence[str], **popen: Any) -> subprocess.Popen[bytes]:  # parameters of Popen
    """Start bubblewrap with the ids of its user mapped. If that fails, it ends, and its stderr says why."""
    ids = _unused_ids()
    first = _FIRST_TO_END if os.access(_FIRST_TO_END[0], os.X_OK) else ()
    if ids is None:
        return subprocess.Popen[bytes]([*first, *command], **popen)
    info, info_end = os.pipe()
    block_end, block = os.pipe()
    try:
        options = ["--userns-block-fd", str(block_end), "--info-fd", str(info_end)]
        process = subprocess.Popen[bytes](
            [*first, command[0], *options, *command[1:]], pass_fds=(block_end, info_end), **popen
        )
    except BaseException:
        os.close(block)
        os.close(info)
        raise
    finally:
        os.close(info_end)
        os.close(block_end)
    try:
        pid = _first_pid(info)
        if pid is not None:
            for kind, unused_id in zip(("uid", "gid"), ids, strict=True):
                Path(f"/proc/{pid}/{kind}_map").write_text(f"0 0 1\n{USER} {unused_id} 1\n", encoding="ascii")
            os.write(block, b"1")
    except OSError:
        process.kill()
    finally:
        os.close(block)
        os.close(info)
    return process


def _unused_ids() -> tuple[int, int] | None:
    """Return a uid and a gid that no user of this system has, or ``None`` unless root has such ids to map."""
    if os.geteuid() != 0:
        return None
    highest = [
        max(int(first) + int(size) - 1 for first, _, size in map(str.split, Path(path).read_text().splitlines()))
        for path in ("/proc/self/uid_map", "/proc/self/gid_map")
    ]
    uid, gid = (min(number, _HIGHEST_ID) for number in highest)
    return (uid, gid) if uid and gid else None


def _first_pid(info: int) -> int | None:
    """Return the pid of the jail's first process, as bubblewrap reports it, or ``None`` if bubblewrap ends before."""
    text = b""
    while b"}" not in text:
        readable, _, _ = select.select([info], [], [], _START_SECONDS)
        part = os.read(info, 4_096) if readable else b""
        if not part:
            return None
        text += part
    return int(json.loads(text)["child-pid"])
