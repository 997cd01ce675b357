"""One line of code in the sandbox, by each of its back ends, beside ``python3 -c`` of the same line."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Final

from capset_testing import session_for
from capset_tools.sandbox import SandboxConfig, sandbox
from lab.benchmarks.row import Row

LINE: Final = "print(sum(range(1000)))"
MOST: Final = 15.0
"""Times the plain interpreter; the start of a jail, or of a second interpreter, is most of it."""
_SHELL: Final = ("bash", "echo $((999 * 500))")
_PERMISSIONS: Final = ("sandbox:execute", "session_files:read", "session_files:write")


def measure(*, quick: bool) -> list[Row]:
    """Return the processor time of a run, its child's included, in those of a plain interpreter; times stand beside."""
    rounds = 5 if quick else 30
    plain = _timed(lambda: subprocess.run([sys.executable, "-I", "-c", LINE], capture_output=True, check=True), rounds)
    rows: list[Row] = []
    for setting, language, code in (
        ("isolated-cpython", "python", LINE),
        ("isolated-cpython", *_SHELL),
        ("monty", "python", LINE),
    ):
        backend, spent = asyncio.run(_spent(setting, language, code, rounds))
        cpu, wall = spent
        peers = {
            "processor": f"{cpu * 1e3:.0f} ms",
            "time": f"{wall * 1e3:.0f} ms",
            "python3 -c": f"{plain[0] * 1e3:.0f} ms, {plain[1] * 1e3:.0f} ms",
        }
        rows.append(Row(f"a run of one line, {backend}, CPU", cpu / plain[0], "× python3 -c", MOST, "at most", peers))
    return rows


async def _spent(setting: str, language: str, code: str, rounds: int) -> tuple[str, tuple[float, float]]:
    (execute_code,) = sandbox.every_tool
    config = SandboxConfig.model_validate({"backend": setting})
    async with session_for(sandbox, permissions=_PERMISSIONS, config=config) as desk:
        first = await desk.session.call(execute_code, language=language, code=code)
        taken: list[tuple[float, float]] = []
        for _ in range(rounds):
            before, began = _cpu(), time.perf_counter()
            await desk.session.call(execute_code, language=language, code=code)
            taken.append((_cpu() - before, time.perf_counter() - began))
    return first["backend"], (median(seconds for seconds, _ in taken), median(seconds for _, seconds in taken))


def _timed(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    taken: list[tuple[float, float]] = []
    for _ in range(rounds):
        before, began = _cpu(), time.perf_counter()
        work()
        taken.append((_cpu() - before, time.perf_counter() - began))
    return median(seconds for seconds, _ in taken), median(seconds for _, seconds in taken)


def _cpu() -> float:
    """Return the processor time of this process and of those that it has reaped."""
    ours, theirs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return ours.ru_utime + ours.ru_stime + theirs.ru_utime + theirs.ru_stime
