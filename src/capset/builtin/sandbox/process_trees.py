"""The processes below one, as Linux's ``/proc`` tells them: how many there are, their threads and their memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


class TooManyThreads(Exception):
    """Processes have more threads together than was asked for."""


def are_children_listed() -> bool:
    """Whether this system lists the children of processes, without which nothing here is found."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def processes_below(pid: int, *, most_threads: int, levels: int | None = None) -> list[int]:
    """Return the ids of all processes that descend from one. Those that end while it looks may be missing.

    Those of the last of ``levels`` are known to start none: only their threads are counted, since a look for children
    takes a read for each thread. Raises ``TooManyThreads``, before it looks at what these have started.
    """
    found: list[int] = []
    pending, threads = [(pid, 0)], 0
    while pending:
        above, level = pending.pop()
        tasks = _tasks(above)
        threads += len(tasks)
        if threads > most_threads:
            raise TooManyThreads
        if level == levels:
            continue
        for child in _children(above, tasks):
            found.append(child)
            pending.append((child, level + 1))
    return found


def memory_of(pids: list[int]) -> int:
    """Return the bytes of memory that processes take, without files of a disk; what they share is counted once.

    Of a process whose shares cannot be read, it is the upper bound.
    """
    return sum(map(_memory, pids))


def memory_at_most(pids: list[int]) -> int:
    """Return an upper bound of ``memory_of``, which takes less time to read: what is shared is counted for each."""
    return sum(map(_resident, pids))


def _tasks(pid: int) -> list[str]:
    with suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    return []


def _children(pid: int, tasks: list[str]) -> list[int]:
    found: list[int] = []
    for task in tasks:
        with suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def _memory(pid: int) -> int:
    found = _sizes(f"/proc/{pid}/smaps_rollup")
    if "Pss_Anon" not in found:  # the process has ended, or is hidden, or the system does not tell it
        return _resident(pid)
    return sum(found.get(name, 0) for name in ("Pss_Anon", "Pss_Shmem", "SwapPss"))


def _resident(pid: int) -> int:
    """Return the memory of a process in RAM and in swap, without files of a disk where the system tells them apart."""
    found = _sizes(f"/proc/{pid}/status")
    return found.get("VmRSS", 0) + found.get("VmSwap", 0) - found.get("RssFile", 0)


def _sizes(path: str) -> dict[str, int]:
    """Return all sizes in a file of ``/proc``, in bytes by name; none if it cannot be read or the process has ended."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.endswith(" kB"):
                name, _, size = line.removesuffix(" kB").partition(":")
                found[name] = int(size) * 1024
    return found
