"""MCP servers as processes and in memory, opened as capabilities."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capset import Agent, Kernel, Principal
from capset.definitions.capabilities import AnyCapability
from capset.definitions.tools.definition import AnyTool
from capset.errors import (
    PermissionDenied,
)
from capset.kernel.call.session import Session
from capset_connect.mcp import McpServer, open_mcp_servers
from capset_connect.mcp.connection import McpConnection
from capset_connect.pins.offers import Offer
from tests.waiting import until

SCRIPT = Path(__file__).with_name("servers.py")
ADA = Principal("ada")


def server(kind: str, folder: Path, **options: Any) -> McpServer:
    return McpServer(name=kind, command=[sys.executable, str(SCRIPT), kind, str(folder)], **options)


@dataclass(frozen=True)
class Named:
    """Secrets by name."""

    values: Mapping[str, str]

    async def get(self, name: str) -> str | None:
        return self.values.get(name)


NONE = Named({})


@dataclass
class Site:
    """A session of an agent with the tools of a server, and the kernel behind it."""

    kernel: Kernel
    capability: AnyCapability
    session: Session

    def tool(self, name: str) -> AnyTool:
        return next(tool for tool in self.capability.every_tool if tool.name == name)

    async def call(self, name: str, **arguments: Any) -> Any:
        return await self.session.call(self.tool(name), **arguments)


@asynccontextmanager
async def opened(
    declared: McpServer, store: str = "memory://", secrets: Mapping[str, str] | None = None
) -> AsyncGenerator[Site]:
    async with (
        Kernel(store=store, secrets=Named(secrets or {})) as kernel,
        open_mcp_servers(kernel, [declared]) as (capability,),
        kernel.open(Agent("reader", uses=[capability]), principal=ADA) as session,
    ):
        yield Site(kernel, capability, session)


async def offers_of(declared: McpServer) -> dict[str, Offer]:
    async with McpConnection(declared, NONE) as connection:
        return {offer.name: offer for offer in await connection.offers()}


async def refused(site: Site, tool: str) -> None:
    """Wait until the calls of a tool are refused since it has changed; what says so may come after other answers."""

    async def is_refused() -> bool:
        try:
            await site.call(tool)
        except PermissionDenied as error:
            if "differently than" in str(error):
                return True
            raise
        return False

    await until(is_refused, f"the calls of {tool} to be refused")
