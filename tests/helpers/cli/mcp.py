"""A client of `capset mcp`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters

from tests.helpers.cli.support import CAPSET, Command


@asynccontextmanager
async def client(command: Command, *args: str, mode: str = "auto", **options: Any) -> AsyncGenerator[Client]:
    """Connect the official client to ``capset mcp``."""
    environ = dict(command.environ)
    server = StdioServerParameters(command=str(CAPSET), args=["mcp", *args], env=environ, cwd=command.folder)
    async with Client(server, mode=mode, **options) as connected:
        yield connected
