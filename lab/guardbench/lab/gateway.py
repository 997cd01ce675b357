"""``capset gateway`` before a server of the lab, and the commands of the one who operates it."""

# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false
# guardbench is in an environment of its own, which pyright does not see.

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from guardbench.domain.schemas import ServerIdentity, ToolDefinitionData
from guardbench.mcp_lab.base import LabFixture, ToolCallResult, from_sdk_tool
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

SERVER = "lab"
PREFIX = f"{SERVER}_"
"""The beginning of the names that tools have behind the gateway."""
META = "dev.capset/"
FILE = "gateway.yaml"
SECONDS = 60.0
_ADDRESS = re.compile(r"capset serves (http://\S+)")


@dataclass(frozen=True, slots=True)
class GatewayResult(ToolCallResult):
    """A result as a model reads it, with what capset says beside it."""

    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def error(self) -> Mapping[str, Any]:
        """The error's shape, empty if there is none."""
        return self.meta.get(f"{META}error") or {}


class Gateway:
    """A gateway with a folder, a file and a database of its own."""

    def __init__(self, capset: Path, folder: Path, command: Sequence[str]) -> None:
        self._capset = capset
        self._folder = folder
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.key = ""

    def declare(self, rules: Mapping[str, Any], governance: Mapping[str, Any]) -> None:
        """Write the file."""
        server = {"command": list(self._command), "rules": rules}
        declaration = {"name": "tools", "mcp_servers": {SERVER: server}, "governance": governance}
        # JSON is YAML.
        (self._folder / FILE).write_text(json.dumps(declaration, indent=1), encoding="utf-8")

    def offers(self) -> list[dict[str, Any]]:
        """Return how each tool is described now that is not approved so, as ``capset mcp diff`` shows it."""
        return self._json("mcp", "diff", "--agent", FILE)["items"]

    def standings(self) -> list[dict[str, Any]]:
        """Return every tool and how it stands to its pin, as ``capset mcp list`` shows it."""
        return self._json("mcp", "list", "--agent", FILE)["items"]

    def approve(self) -> None:
        """Approve all that is approved without being named."""
        self._run("mcp", "approve", "--agent", FILE, SERVER)

    def start(self) -> None:
        """Serve, with a key for the agent."""
        self.key = self._json("key", "create", "agent", "--principal", "agent", "--scope", "call")["key"]
        log = self._folder / "gateway.log"
        with log.open("wb") as output:
            command = [self._capset, "gateway", FILE, "--port", "0", "--db", "lab.db"]
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=self._environ(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        end = time.monotonic() + SECONDS
        while (match := _ADDRESS.search(log.read_text("utf-8"))) is None:
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the gateway did not start: {log.read_text('utf-8')[-2_000:]}")
            time.sleep(0.05)
        self.url = match[1]

    def stop(self) -> None:
        """End the gateway, if it runs."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(SECONDS)
            finally:
                self._process.kill()

    def _json(self, *words: str) -> dict[str, Any]:
        return json.loads(self._run(*words, "--json"))

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [self._capset, *words, "--db", "lab.db"],
            cwd=self._folder,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode not in (0, 3):  # 3: something differs, or is left out
            raise RuntimeError(f"capset {' '.join(words)} ended with {done.returncode}: {done.stderr[-2_000:]}")
        return done.stdout

    def _environ(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG", "PYTHONPATH") if name in os.environ}
        return inherited | {"HOME": str(self._folder)}


class GatewayConnection:
    """GuardBench's connection, to the gateway in the place of the fixture; tools have the fixture's own names."""

    def __init__(self, gateway: Gateway, fixture: LabFixture) -> None:
        self._gateway = gateway
        self._fixture = fixture
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> GatewayConnection:
        """Connect."""
        headers = {"Authorization": f"Bearer {self._gateway.key}"}
        http = await self._stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=SECONDS))
        transport = streamable_http_client(f"{self._gateway.url}/mcp", http_client=http)
        self.client = await self._stack.enter_async_context(Client(transport, cache=None))
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Disconnect."""
        await self._stack.aclose()

    @property
    def server_identity(self) -> ServerIdentity:
        """The identity of the gateway, which an agent sees."""
        info = self.client.server_info
        return ServerIdentity(name=self._fixture.name, version=info.version if info else None)

    async def list_tools(self) -> list[ToolDefinitionData]:
        """List the tools that the gateway offers."""
        listing = await self.client.list_tools()
        return [
            from_sdk_tool(tool).model_copy(update={"name": tool.name.removeprefix(PREFIX)})
            for tool in listing.tools
            if tool.name.startswith(PREFIX)
        ]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> GatewayResult:
        """Call a tool through the gateway. Raises ``RuntimeError`` for what is neither a result nor a refusal."""
        result = await self.client.call_tool(PREFIX + name, arguments)
        text = "\n".join(content.text for content in result.content if isinstance(content, types.TextContent))
        outcome = GatewayResult(text, is_error=bool(result.is_error), meta=dict(result.meta or {}))
        if outcome.error.get("status", 0) >= 500:
            raise RuntimeError(f"the gateway failed: {text}")
        return outcome
