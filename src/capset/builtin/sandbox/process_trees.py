"""The processes below one, as Linux's ``/proc`` tells them: how many there are, and the memory that they take."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def processes_below(pid: int) -> list[int]:
    """Return the ids of all processes that descend from one. Those that end while it looks may be missing."""
    found: list[int] = []
    pending = [pid]
    while pending:
        for child in _children(pending.pop()):
            found.append(child)
            pending.append(child)
    return found


def memory_of(pids: list[int]) -> int:
    """Return the bytes of memory that processes take, without files; what they share is counted once."""
    return sum(_number(f"/proc/{pid}/smaps_rollup", "Pss_Anon:") for pid in pids)


def memory_at_most(pids: list[int]) -> int:
    """Return an upper bound of ``memory_of``, which takes less time to read: what is shared is counted for each."""
    return sum(_number(f"/proc/{pid}/status", "RssAnon:") for pid in pids)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def _number(path: str, name: str) -> int:
    """Return a number of kilobytes in a file of ``/proc``, in bytes; 0 if the process has ended."""
    with suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0
