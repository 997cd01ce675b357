"""ContextForge, another gateway, in an environment of its own: its SDK of MCP is an older one."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

BIN = Path(__file__).parents[2] / ".venv-contextforge" / "bin"
"""Where ``make lab-bench`` installs it."""
_START_SECONDS = 180.0
_ADMIN = "admin@example.com"


def is_installed() -> bool:
    """Return whether it is there."""
    return (BIN / "mcpgateway").exists()


@contextmanager
def calling(folder: Path, upstream: str, tool: str) -> Generator[tuple[str, bytes]]:
    """Run it with one MCP server behind it; yield its address, and the request that calls a tool of that.

    It runs as its documentation starts it for one machine, on SQLite, without its pages, and with its default of
    requiring a token. Raises ``RuntimeError`` if it does not start.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environ = _environ(folder)
    address = f"http://127.0.0.1:{port}"
    with (folder / "context_forge.log").open("wb") as log:
        process = subprocess.Popen(
            [BIN / "mcpgateway", "--host", "127.0.0.1", "--port", str(port)],
            cwd=folder, env=environ, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _wait(process, address)
        completed = subprocess.run(
            [BIN / "python", "-m", "mcpgateway.utils.create_jwt_token", "--username", _ADMIN, "--exp", "60", "--admin"],
            cwd=folder, env=environ, check=True, capture_output=True, text=True,
        )  # fmt: skip
        token = completed.stdout.split()[-1]
        about = {"name": "up", "url": f"{upstream}/mcp", "transport": "STREAMABLEHTTP"}
        _ask(address, "/v1/gateways", token, about)
        (registered,) = _ask(address, "/v1/tools", token)
        server = _ask(
            address, "/v1/servers", token, {"server": {"name": "all", "associated_tools": [registered["id"]]}}
        )
        yield address, _request(f"/servers/{server['id']}/mcp", token, f"up-{tool}")
    finally:
        process.terminate()
        process.wait(60)


def _environ(folder: Path) -> Mapping[str, str]:
    return {
        "PATH": os.environ["PATH"], "HOME": str(folder), "DATABASE_URL": f"sqlite:///{folder / 'context_forge.db'}",
        "CACHE_TYPE": "memory", "MCPGATEWAY_UI_ENABLED": "false", "MCPGATEWAY_ADMIN_API_ENABLED": "false",
        "JWT_SECRET_KEY": secrets.token_urlsafe(48), "AUTH_ENCRYPTION_SECRET": secrets.token_urlsafe(48),
        "BASIC_AUTH_PASSWORD": secrets.token_urlsafe(24), "PLATFORM_ADMIN_PASSWORD": f"aA1!{secrets.token_hex(16)}",
        "PLUGINS_ENABLED": "false", "SSRF_ALLOW_LOCALHOST": "true", "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
        "LOG_LEVEL": "ERROR",
    }  # fmt: skip


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            with urlopen(f"{address}/health", timeout=5):
                return
        except URLError:
            time.sleep(0.5)
    raise RuntimeError("ContextForge did not start")


def _ask(address: str, path: str, token: str, body: object = None) -> Any:  # JSON data
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(address + path, data, headers), timeout=60) as response:
        return json.load(response)


def _request(path: str, token: str, tool: str) -> bytes:
    about = {"name": tool, "arguments": {"a": 1, "b": 2}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": about}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n"
        "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        f"user-agent: benchmark\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
