"""What importing the client needs, and what it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.realtime


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)


def test_it_needs_nothing_of_the_server() -> None:
    heavy = ["fastapi", "uvicorn", "starlette", "structlog", "mcp", "sqlalchemy", "typer"]
    done = run(
        f"import sys; sys.modules.update(dict.fromkeys({heavy})); import capset_server.client;"
        " print(capset_server.client.Client('http://h'))"
    )
    assert (done.stdout, done.stderr) == ("Client('http://h')\n", "")
