"""The processes below one, as Linux's ``/proc`` tells them: how many there are, their threads and their memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


class TooManyThreads(Exception):
    """Processes have more threads together than was asked for."""


def processes_below(pid: int, *, most_threads: int) -> list[int]:
    """Return the ids of all processes that descend from one. Those that end while it looks may be missing.

    Raises ``TooManyThreads``, before it looks at what these have started, which would take long.
    """
    found: list[int] = []
    pending, threads = [pid], 0
    while pending:
        above = pending.pop()
        tasks = _tasks(above)
        threads += len(tasks)
        if threads > most_threads:
            raise TooManyThreads
        for child in _children(above, tasks):
            found.append(child)
            pending.append(child)
    return found


def memory_of(pids: list[int]) -> int:
    """Return the bytes of memory that processes take, without files of a disk; what they share is counted once."""
    return sum(_numbers(f"/proc/{pid}/smaps_rollup", ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")) for pid in pids)


def memory_at_most(pids: list[int]) -> int:
    """Return an upper bound of ``memory_of``, which takes less time to read: what is shared is counted for each."""
    return sum(_numbers(f"/proc/{pid}/status", ("RssAnon:", "RssShmem:", "VmSwap:")) for pid in pids)


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


def _numbers(path: str, names: tuple[str, ...]) -> int:
    """Return the sum of some numbers of kilobytes in a file of ``/proc``, in bytes; 0 if the process has ended."""
    found = 0
    with suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(names):
                found += int(line.split()[1]) * 1024
    return found
