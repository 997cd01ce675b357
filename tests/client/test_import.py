"""What importing the client needs, and what it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from capset.extras import install_command

pytestmark = pytest.mark.realtime


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)


def test_without_httpx2_it_says_what_to_install() -> None:
    done = run("import sys; sys.modules['httpx2'] = None; import capset; import capset.client")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: capset.client needs httpx2: {install_command('client')}"
    )


def test_it_needs_nothing_of_the_server() -> None:
    heavy = ["fastapi", "uvicorn", "starlette", "structlog", "mcp", "sqlalchemy", "typer"]
    done = run(
        f"import sys; sys.modules.update(dict.fromkeys({heavy})); import capset.client;"
        " print(capset.client.Client('http://h'))"
    )
    assert (done.stdout, done.stderr) == ("Client('http://h')\n", "")
