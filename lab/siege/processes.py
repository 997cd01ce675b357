"""Processes as ``/proc`` shows them: memory, processor time, descriptors and threads; on Linux."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process and its children hold: bytes, and numbers of descriptors and threads."""

    rss: int
    descriptors: int
    threads: int


def usage(pid: int) -> Usage:
    """Return what a process and those that it started hold now."""
    statuses = [(one, _status(one)) for one in tree(pid)]
    return Usage(
        sum(_bytes(status, "VmRSS") for _, status in statuses),
        sum(_descriptors(one) for one, _ in statuses),
        sum(int(status.get("Threads", "0")) for _, status in statuses),
    )


def peak_rss(pid: int) -> int:
    """Return the most memory that a process has held, in bytes, each of its children at its own most."""
    return sum(_bytes(_status(one), "VmHWM") for one in tree(pid))


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, of those that it started, and of those of them that have ended."""
    ticks = 0
    for one in tree(pid):
        fields = _read(Path(f"/proc/{one}/stat")).rpartition(")")[2].split()
        if fields:
            ticks += sum(map(int, fields[11:15] if one == pid else fields[11:13]))
    return ticks / _TICKS


def tree(pid: int) -> list[int]:
    """Return a process and all that it started, directly or not."""
    found = [pid]
    for one in found:
        for thread in Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, _read(thread).split())
    return found


def _descriptors(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _status(pid: int) -> dict[str, str]:
    lines = _read(Path(f"/proc/{pid}/status")).splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _bytes(status: dict[str, str], name: str) -> int:
    return int(status.get(name, "0 kB").split()[0]) * 1024


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended
