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
    statuses = [(process_id, _status(process_id)) for process_id in tree(pid)]
    return Usage(
        sum(_bytes(status, "VmRSS") for _, status in statuses),
        sum(_descriptors(process_id) for process_id, _ in statuses),
        sum(int(status.get("Threads", "0")) for _, status in statuses),
    )


def peak_rss(pid: int) -> int:
    """Return the most memory that a process has held, in bytes, each of its children at its own most."""
    return sum(_bytes(_status(process_id), "VmHWM") for process_id in tree(pid))


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, of those that it started, and of those of them that have ended."""
    ticks = 0
    for process_id in tree(pid):
        fields = _read(Path(f"/proc/{process_id}/stat")).rpartition(")")[2].split()
        if fields:
            ticks += sum(map(int, fields[11:15] if process_id == pid else fields[11:13]))
    return ticks / _TICKS


def tree(pid: int) -> list[int]:
    """Return a process and all that it started, directly or not."""
    pids = [pid]
    for process_id in pids:
        for thread in Path(f"/proc/{process_id}/task").glob("*/children"):
            pids += map(int, _read(thread).split())
    return pids


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
