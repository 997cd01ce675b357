"""The CPU that the names of ``capset`` cost, against the import of pydantic that everybody here pays anyway."""

from __future__ import annotations

import subprocess
import sys

from lab.benchmarks.row import Row

PYDANTIC = "import asyncio, pydantic; pydantic.TypeAdapter; pydantic.BaseModel; pydantic.Field"
CAPSET = "from capset import Agent, Kernel, tool"
"""``import capset`` alone loads nothing: the first name does."""
VERSION = "import sys; sys.argv = ['capset', '--version']; from capset_cli import main; main()"
TARGET, VERSION_TARGET = 1.5, 0.15
"""The last in seconds, of the whole process."""


def measure(*, quick: bool) -> list[Row]:
    """Return the ratio of the two imports' CPU, and the CPU of ``capset --version``, the best of fresh processes."""
    rounds = 1 if quick else 10
    pydantic = min(_cpu(PYDANTIC) for _ in range(rounds))
    capset = min(_cpu(CAPSET) for _ in range(rounds))
    version = min(_whole(VERSION) for _ in range(rounds))
    nothing = min(_whole("pass") for _ in range(rounds))
    peers = {"import pydantic": f"{pydantic * 1000:.0f} ms", "import of capset's names": f"{capset * 1000:.0f} ms"}
    return [
        Row(
            "import of capset's names",
            round(capset / pydantic, 2),
            "times the CPU of importing pydantic",
            TARGET,
            "at most",
            peers,
        ),
        Row(
            "capset --version",
            round(version, 3),
            "s of CPU",
            VERSION_TARGET,
            "at most",
            {"Python alone": f"{nothing:.3f} s"},
        ),
    ]


def _cpu(code: str) -> float:
    """Return the CPU seconds of one import in a fresh interpreter, without the interpreter's own start."""
    timed = f"import time; start = time.process_time(); {code}; print(time.process_time() - start)"
    return float(_run(timed))


def _whole(code: str) -> float:
    """Return the CPU seconds of a process that runs some code, from its start."""
    timed = f"import atexit, time; atexit.register(lambda: print(time.process_time())); {code}"
    return float(_run(timed).split()[-1])


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
