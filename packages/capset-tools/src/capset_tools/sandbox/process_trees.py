"""The processes below one, as Linux's ``/proc`` tells them: and the memory that they take."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def are_children_listed() -> bool:
    """Whether this system lists the children of processes, without which nothing here is found."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def processes_below(pid: int) -> list[int]:
    """Return the ids of all processes that descend from one. Those that end in the meantime may be missing."""
    pids: list[int] = []
    pending = [pid]
    while pending:
        children = _children(pending.pop())
        pids += children
        pending += children
    return pids


def memory_of(pids: list[int]) -> int:
    """Return the bytes of memory that processes take, without files of a disk; what they share is counted once.

    Of a process whose shares cannot be read, it is the upper bound.
    """
    return sum(map(_memory, pids))


def memory_at_most(pids: list[int]) -> int:
    """Return an upper bound of ``memory_of``, which takes less time to read: what is shared is counted for each."""
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
    if "Pss_Anon" not in sizes:  # the process has ended, or is hidden, or the system does not tell it
        return _resident(pid)
    return sum(sizes.get(name, 0) for name in ("Pss_Anon", "Pss_Shmem", "SwapPss"))


def _resident(pid: int) -> int:
    """Return the memory of a process in RAM and in swap, without files of a disk where the system tells them apart."""
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
