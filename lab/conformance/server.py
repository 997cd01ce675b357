"""A real server to test: `capset serve` on a free port of this machine, with the capability of package/."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2

from lab.conformance import Failed

TOOLS: Final = Path(__file__).resolve().parent / "package"
"""A folder that, on PYTHONPATH, is as good as an installed package with a capability."""
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 20.0
_ADDRESS: Final = re.compile(r"capset serves (http://\S+)")


@contextmanager
def serving(folder: Path) -> Generator[str]:
    """Give the address of an agent's MCP endpoint while inside; everything the server keeps is in ``folder``.

    Raises ``Failed`` if the server does not start, does not take the agent, or does not end well.
    """
    log = folder / "server.log"
    # The suite sends no Authorization header.
    command = [str(Path(sys.executable).with_name("capset")), "serve", "--port", "0", "--insecure", "--db", "test.db"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CAPSET_")}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environ | {"PYTHONPATH": str(TOOLS)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as server,
    ):
        try:
            address = _address(server, log)
            yield f"{address}/mcp/agents/{_agent(address)}"
            server.terminate()
            code = server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"the server did not end within {STOP_SECONDS:g} s\n{_tail(log)}") from None
        finally:
            server.kill()
    if code != 0:
        raise Failed(f"the server ended with {code}\n{_tail(log)}")


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the server says where it is."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if (match := _ADDRESS.search(log.read_text(encoding="utf-8", errors="replace"))) is not None:
            return match[1]
        if server.poll() is not None:
            raise Failed(f"the server ended with {server.returncode} before it served\n{_tail(log)}")
        time.sleep(0.05)
    raise Failed(f"the server did not start within {START_SECONDS:g} s\n{_tail(log)}")


def _agent(address: str) -> str:
    """Make the agent by REST, and return its id."""
    agent = {"name": "conformance", "system_prompt": "Keep to the protocol.", "capabilities": ["conformance"]}
    with httpx2.Client(trust_env=False) as http:
        response = http.post(f"{address}/v1/agents", json=agent)
    if response.status_code != 201:
        raise Failed(f"the server does not take the agent: {response.status_code} {response.text}")
    return response.json()["id"]


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-4000:]
