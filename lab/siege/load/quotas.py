"""Quotas of processor time for processes, by control groups: as if each had a small machine of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path("/sys/fs/cgroup/cpu")
"""The controller of control groups, version 1."""
PERIOD_MICROSECONDS = 10_000
"""Short, so that a process that has used up its share goes on soon: it may hold a lock that others wait for."""


def can_limit() -> bool:
    """Return whether this process may set quotas here."""
    return (ROOT / "cpu.cfs_quota_us").exists() and os.access(ROOT, os.W_OK)


@contextmanager
def limited(pids: Sequence[int], cores: float | None) -> Generator[None]:
    """Let each of these processes take no more than so much of a core while inside; ``None`` is no limit."""
    groups: list[Path] = []
    try:
        for pid in pids if cores is not None else ():
            group = ROOT / f"capset-load-{os.getpid()}-{pid}"
            group.mkdir()
            groups.append(group)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (group / "cpu.cfs_quota_us").write_text(str(int(PERIOD_MICROSECONDS * (cores or 0))))
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for group in groups:
            for pid in (group / "cgroup.procs").read_text().split():
                (ROOT / "cgroup.procs").write_text(pid)
            _remove(group)


def _remove(group: Path) -> None:
    for _ in range(20):
        try:
            group.rmdir()
        except OSError:  # the kernel has not moved all threads yet
            time.sleep(0.05)
        else:
            return
