"""The descendants of a process and their memory, from Linux's ``/proc``."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def are_children_listed() -> bool:
    """Whether this system lists the children of processes. Without that, nothing here works."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def processes_below(pid: int) -> list[int]:
    """Return the pids of all descendants of a process. Those that end in the meantime may be missing."""
    pids: list[int] = []
    pending = [pid]
    while pending:
        children = _children(pending.pop())
        pids += children
        pending += children
    return pids


def memory_of(pids: list[int]) -> int:
    """Return the memory of processes in bytes, without mapped files; memory that they share is counted once.

    A process whose share cannot be read counts with its upper bound.
    """
    return sum(map(_memory, pids))


def memory_at_most(pids: list[int]) -> int:
    """Return an upper bound of ``memory_of`` that is quicker to read: shared memory counts for each process."""
    return sum(map(_resident, pids))


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with suppress(OSError):
                children += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return children


def _memory(pid: int) -> int:
    sizes = _sizes(f"/proc/{pid}/smaps_rollup")
    if "Pss_Anon" not in sizes:  # the process has ended or is hidden, or the system does not report it
        return _resident(pid)
    return sum(sizes.get(name, 0) for name in ("Pss_Anon", "Pss_Shmem", "SwapPss"))


def _resident(pid: int) -> int:
    """Return the memory of a process in RAM and swap, without mapped files if the system reports those separately."""
    sizes = _sizes(f"/proc/{pid}/status")
    return sizes.get("VmRSS", 0) + sizes.get("VmSwap", 0) - sizes.get("RssFile", 0)


def _sizes(path: str) -> dict[str, int]:
    """Return all sizes in a file of ``/proc``, in bytes by name; none if it cannot be read or the process has ended."""
    sizes: dict[str, int] = {}
    with suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.endswith(" kB"):
                name, _, size = line.removesuffix(" kB").partition(":")
                sizes[name] = int(size) * 1024
    return sizes
