"""``python -m lab.matrix``: run tests on each Python from 3.11 to 3.14 that is here, and name the others.

Each has an environment of its own, ``.venv-matrix/VERSION``, of what uv.lock names. Further arguments are pytest's, in
the place of the core's tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
CORE: Final = ("packages/capset/tests",)
_VERSION: Final = "import sys; print('%d.%d' % sys.version_info[:2])"


def candidates(version: str) -> Iterator[str]:
    """Yield what could be a Python of a version: on the path, or where pyenv keeps its own."""
    if found := shutil.which(f"python{version}"):
        yield found
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from (str(one / "bin" / "python") for one in sorted(kept.glob(f"{version}.*"), reverse=True))


def python_of(version: str) -> str | None:
    """Return a Python of a version that runs, if there is one."""
    for one in candidates(version):
        done = subprocess.run([one, "-c", _VERSION], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return one
    return None


def run(version: str, python: str, arguments: list[str]) -> bool:
    """Bring the environment of a version up to date, and run tests in it; return whether they passed."""
    folder = ROOT / ".venv-matrix" / version
    environ = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(folder), "UV_PYTHON_DOWNLOADS": "never"}
    uv = str(Path(sys.executable).with_name("uv"))
    sync = [uv, "sync", "--frozen", "--quiet", "--no-group", "docs", "--python", python]
    subprocess.run(sync, cwd=ROOT, env=environ, check=True)
    given = arguments or ["-q", "-n", "auto", "-m", "not nightly and not weekly and not clients and not browser", *CORE]
    return subprocess.run([folder / "bin" / "pytest", *given], cwd=ROOT, env=environ, check=False).returncode == 0


def main(arguments: list[str]) -> int:
    """Run the tests on all versions, and print what came of each."""
    told: dict[str, str] = {}
    for version in VERSIONS:
        if (python := python_of(version)) is None:
            told[version] = "not here"
            continue
        print(f"\n== Python {version}", flush=True)
        told[version] = "passed" if run(version, python, arguments) else "failed"
    print("\n" + "\n".join(f"Python {version}: {what}" for version, what in told.items()))
    return int("failed" in told.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
