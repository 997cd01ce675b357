"""A market of MCP servers, and an administrator who declares them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp

from capset import Capability
from capset_connect.agents.server_allowances import ServerAllowances
from tests.helpers.connect.mcp.urls import There, serving
from tests.helpers.server.support import Site, make_agent, site

ADMIN = ("capset:admin",)


@dataclass
class Shop:
    """An MCP server of a shop, whose tools can be described in other words."""

    said: str = "Say a price."
    calls: list[int] = field(default_factory=list[int])
    server: MCPServer = field(default_factory=lambda: MCPServer("shop"))

    def __post_init__(self) -> None:
        self.describe(self.said)
        self.server.resource("shop://rules", name="rules")(lambda: "Be kind.")
        self.server.add_tool(lambda: "closed", name="close", description="Close.", structured_output=False)

    def describe(self, text: str) -> None:
        """Describe the tool ``price`` in these words from now on."""
        if self.said != text:
            self.server.remove_tool("price")
        self.said = text
        self.server.add_tool(self._price, name="price", description=text, structured_output=False)

    def _price(self, number: int) -> str:
        self.calls.append(number)
        return f"{number} €"

    def app(self) -> ASGIApp:
        return self.server.streamable_http_app()


@dataclass
class Market:
    """A capset server, an MCP server beside it, and clients of an administrator and of ada, both of ``acme``."""

    here: Site
    there: There
    shop: Shop
    root: httpx2.AsyncClient
    ada: httpx2.AsyncClient

    def declared(self, **more: Any) -> dict[str, Any]:
        return {"shop": {"url": self.there.url, **more}}

    async def agent(self, *capabilities: str, **more: Any) -> str:
        """Make an agent with the shop, and return its id."""
        new_agent = await make_agent(
            self.root, *(capabilities or ("mcp:shop",)), **{"mcp_servers": self.declared(), **more}
        )
        return new_agent["id"]

    async def tools(self, agent: str, name: str = "shop") -> dict[str, dict[str, Any]]:
        """Return the tools of a server by name, as an administrator sees them."""
        response = await self.root.get(f"/v1/agents/{agent}/mcp-servers/{name}")
        assert response.status_code == 200, response.text
        assert response.json()["problem"] is None
        return {tool["tool"]: tool for tool in response.json()["tools"]}

    async def approve(self, agent: str, *names: str, server: str = "shop") -> httpx2.Response:
        """Approve tools as they are."""
        tools = await self.tools(agent, server)
        hashes = {name: tools[name]["hash"] for name in names or tools}
        return await self.root.post(f"/v1/agents/{agent}/mcp-servers/{server}/approve", json={"tools": hashes})

    async def session(self, agent: str, client: httpx2.AsyncClient | None = None) -> str:
        response = await (client or self.ada).post("/v1/sessions", json={"agent_id": agent})
        assert response.status_code == 201, response.text
        return response.json()["id"]


@asynccontextmanager
async def market(*capabilities: Capability, store: str = "memory://", **more: Any) -> AsyncGenerator[Market]:
    shop = Shop()
    async with serving(shop.app()) as remote:
        allowances = more.pop("server_allowances", None) or ServerAllowances(["acme=127.0.0.1"])
        async with site(*capabilities, store=store, server_allowances=allowances, **more) as server:
            await server.key("root", scopes=ADMIN)
            async with server.client("root") as root, server.client("ada") as ada:
                yield Market(server, remote, shop, root, ada)
