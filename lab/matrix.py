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
    if program := shutil.which(f"python{version}"):
        yield program
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from (str(folder / "bin" / "python") for folder in sorted(versions.glob(f"{version}.*"), reverse=True))


def python_of(version: str) -> str | None:
    """Return a Python of a version that runs, if there is one."""
    for candidate in candidates(version):
        done = subprocess.run([candidate, "-c", _VERSION], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return candidate
    return None


def run(version: str, python: str, arguments: list[str]) -> bool:
    """Bring the environment of a version up to date, and run tests in it; return whether they passed."""
    folder = ROOT / ".venv-matrix" / version
    environ = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(folder), "UV_PYTHON_DOWNLOADS": "never"}
    uv = str(Path(sys.executable).with_name("uv"))
    sync = [uv, "sync", "--frozen", "--quiet", "--no-group", "docs", "--python", python]
    subprocess.run(sync, cwd=ROOT, env=environ, check=True)
    test_arguments = arguments or [
        "-q",
        "-n",
        "auto",
        "-m",
        "not nightly and not weekly and not clients and not browser",
        *CORE,
    ]
    return (
        subprocess.run([folder / "bin" / "pytest", *test_arguments], cwd=ROOT, env=environ, check=False).returncode == 0
    )


def main(arguments: list[str]) -> int:
    """Run the tests on all versions, and print what came of each."""
    outcomes: dict[str, str] = {}
    for version in VERSIONS:
        if (python := python_of(version)) is None:
            outcomes[version] = "not here"
            continue
        print(f"\n== Python {version}", flush=True)
        outcomes[version] = "passed" if run(version, python, arguments) else "failed"
    print("\n" + "\n".join(f"Python {version}: {outcome}" for version, outcome in outcomes.items()))
    return int("failed" in outcomes.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
