"""The CPU that ``import capset`` costs, against the import of pydantic that everybody here pays anyway."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.row import Row

PYDANTIC = "import asyncio, pydantic; pydantic.TypeAdapter; pydantic.BaseModel; pydantic.Field"


def measure(*, quick: bool) -> list[Row]:
    """Return the ratio of the two imports' CPU, each the best of several fresh processes."""
    rounds = 1 if quick else 10
    pydantic = min(_cpu(PYDANTIC) for _ in range(rounds))
    capset = min(_cpu("import capset") for _ in range(rounds))
    peers = {"import pydantic": f"{pydantic * 1000:.0f} ms", "import capset": f"{capset * 1000:.0f} ms"}
    ratio = round(capset / pydantic, 2)
    return [Row("import capset", ratio, "times the CPU of importing pydantic", 1.5, "at most", peers)]


def _cpu(code: str) -> float:
    """Return the CPU seconds of one import in a fresh interpreter, without the interpreter's own start."""
    timed = f"import time; start = time.process_time(); {code}; print(time.process_time() - start)"
    done = subprocess.run([sys.executable, "-c", timed], check=True, capture_output=True, text=True)
    return float(done.stdout)
