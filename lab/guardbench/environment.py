"""The environment of mcp-guardbench: apart from capset's, since the two need different versions of SQLAlchemy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from lab.guardbench import Failed

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".venv-guardbench"
NAME: Final = "mcp-guardbench"
VERSION: Final = "0.1.0"
LEAST: Final = "3.12"
"""The oldest Python that it runs on."""
CASES: Final = FOLDER / "test_cases"
"""The test cases, which are in its source distribution alone."""


def find_python(uv: Path, environ: dict[str, str]) -> str | None:
    """Return the path of a Python that mcp-guardbench runs on, by uv, or nothing if there is none."""
    # pyenv's shims answer only for the versions that it has been told to use; the versions themselves always do.
    home = Path(environ.get("PYENV_ROOT", Path(environ.get("HOME", "/")) / ".pyenv"))
    versions = [str(folder) for folder in sorted(home.glob("versions/3.*/bin"))]
    path = os.pathsep.join([*versions, environ.get("PATH", "")])
    done = subprocess.run(
        [uv, "python", "find", "--no-project", "--system", f">={LEAST}"],
        env=environ | {"PATH": path, "UV_PYTHON_DOWNLOADS": "never"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or None if done.returncode == 0 else None


def make(uv: Path, python: str) -> Path:
    """Make the environment if it is not there, and return its Python. Raises ``Failed`` if it cannot be made."""
    interpreter, mark = FOLDER / "bin" / "python", FOLDER / ".capset-setup"
    if mark.exists() and mark.read_text(encoding="utf-8") == VERSION:
        return interpreter
    print(f"guardbench: installing {NAME} {VERSION} into {FOLDER.name}", file=sys.stderr, flush=True)
    _run([uv, "venv", "--quiet", "--clear", "--no-project", "--python", python, FOLDER])
    # pip is the one that fetches a source distribution, and hatchling builds it.
    _run([uv, "pip", "install", "--quiet", "--python", interpreter, f"{NAME}=={VERSION}", "pip", "hatchling"])
    _fetch_cases(interpreter)
    mark.write_text(VERSION, encoding="utf-8")
    return interpreter


def _fetch_cases(python: Path) -> None:
    source = FOLDER / "source"
    download = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    _run([*download, "--no-binary", NAME, "--dest", source, f"{NAME}=={VERSION}"])
    (archive,) = source.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        members = [
            member for member in packed.getmembers() if member.isfile() and Path(member.name).parent.name == CASES.name
        ]
        packed.extractall(source, [member for member in members if member.name.endswith(".yaml")], filter="data")
    (unpacked,) = source.glob(f"*/{CASES.name}")
    shutil.rmtree(CASES, ignore_errors=True)
    unpacked.rename(CASES)


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Failed(f"{FOLDER.name} cannot be made; it needs the package index\n{done.stderr[-2_000:]}")
