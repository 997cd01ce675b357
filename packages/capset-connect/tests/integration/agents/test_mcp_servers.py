"""MCP servers of stored agents in code: what a session carries, and what bounds them (spec 7, M26)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from capset import Kernel, Principal
from capset.errors import InvalidArguments
from capset.kernel.registry import Registry
from capset.stores.base import AgentRow
from capset.stores.base.pins import ToolPin
from capset.wire.agents import AgentInput
from capset_connect.agents.mcp_servers import AgentServers
from capset_connect.agents.permissions import Author
from capset_connect.agents.server_allowances import ServerAllowances
from capset_connect.agents.store import StoredAgents, new_session_row
from capset_connect.mcp.server import McpServer
from capset_connect.pins.offers import examined
from capset_connect.pins.tool_pins import pin_of
from tests.helpers.connect.mcp.urls import serving

ROOT = Author("user:root", is_admin=True)
ADA = Principal("ada", org="acme")


def agents_of(kernel: Kernel) -> StoredAgents:
    return StoredAgents(kernel, Registry.of([]), AgentServers(kernel, ServerAllowances(["acme=127.0.0.1"])))


async def made(agents: StoredAgents, url: str = "https://shop.example.com/mcp", **more: Any) -> AgentRow:
    """Store an agent with the server ``shop``."""
    definition = {"name": "seller", "capabilities": ["mcp:shop"], "mcp_servers": {"shop": {"url": url, **more}}}
    return await agents.create("acme", AgentInput.model_validate(definition), author=ROOT)


def pin(row: AgentRow, name: str, description: str = "Sell.") -> ToolPin:
    source = McpServer(name="shop", agent=row.id, url="https://shop.example.com/mcp")
    shape = {"name": name, "description": description, "inputSchema": {"type": "object"}}
    return pin_of(source, examined(name, f"shop_{name}", shape), "root", "2026-01-01T00:00:00.000000Z")


async def approve(kernel: Kernel, *pins: ToolPin) -> None:
    await kernel.store.pins.change(pins[0].server, pins)


def shop() -> MCPServer:
    server = MCPServer("shop")
    server.add_tool(lambda: "sold", name="sell", description="Sell.", structured_output=False)
    return server


@pytest.mark.spec("M26", "P5")
async def test_a_session_carries_the_servers_of_its_version_and_has_the_tools_that_are_approved_now() -> None:
    async with Kernel(store="memory://") as kernel:
        agents = agents_of(kernel)
        row = await made(agents)
        session = new_session_row(kernel, await agents.loaded(row), ADA)
        await agents.change("acme", row.id, {"mcp_servers": None, "capabilities": []}, author=ROOT)
        before = kernel.compose(await agents.of_session(session))
        await approve(kernel, pin(row, "sell"))
        after = kernel.compose(await agents.of_session(session))
        assert (list(before.tools), list(after.tools)) == ([], ["shop_sell"])
        assert after.static_hash != before.static_hash
        assert kernel.compose(await agents.of_session(session)) is after, "it is composed once"


@pytest.mark.spec("M26")
async def test_an_agent_with_a_damaged_pin_is_without_the_tools_and_says_so() -> None:
    async with Kernel(store="memory://") as kernel:
        agents = agents_of(kernel)
        row = await made(agents)
        await approve(kernel, replace(pin(row, "sell"), hash="0" * 64))
        loaded = await agents.loaded(row)
        assert list(kernel.compose(loaded.agent).tools) == []
        assert "the pin of 'sell'" in loaded.notices[0]


@pytest.mark.spec("M26", "T45")
async def test_what_is_approved_of_one_server_has_a_megabyte_at_most() -> None:
    async with serving(shop().streamable_http_app()) as server, Kernel(store="memory://") as kernel:
        agents = agents_of(kernel)
        row = await made(agents, server.url)
        (report,) = await agents.servers.look(row)
        hashes = {standing.name: standing.offer.hash for standing in report.tools if standing.offer is not None}
        await approve(kernel, *(pin(row, f"large{number}", "x" * 240_000) for number in range(5)))
        with pytest.raises(InvalidArguments, match="at most 1,048,576 bytes"):
            await agents.approve_tools("acme", row.id, "shop", hashes, by=ADA)
        await agents.servers.withdraw(row, "shop", ["large0"], ADA)
        assert [standing.name for standing in await agents.approve_tools("acme", row.id, "shop", hashes, by=ADA)] == [
            "sell"
        ]


@pytest.mark.spec("M26", "M3")
async def test_a_connection_is_shared_and_ends_with_the_kernel() -> None:
    async with serving(shop().streamable_http_app()) as server:
        async with Kernel(store="memory://") as kernel:
            agents = agents_of(kernel)
            row = await made(agents, server.url)
            (report,) = await agents.servers.look(row)
            hashes = {standing.name: standing.offer.hash for standing in report.tools if standing.offer is not None}
            await agents.approve_tools("acme", row.id, "shop", hashes, by=ADA)
            for principal in (ADA, Principal("bob", org="acme")):
                loaded = await agents.loaded(row)
                (chosen,) = kernel.compose(loaded.agent).capability_uses
                (tool,) = chosen.capability.every_tool
                async with kernel.open(loaded.agent, principal=principal) as session:
                    assert await session.call(tool) == "sold"
            assert [task.get_name() for task in asyncio.all_tasks()].count("mcp shop") == 1
            discovered = [headers["mcp-method"] for headers in server.headers if "mcp-method" in headers]
            assert discovered.count("server/discover") == 1
        assert "mcp shop" not in [task.get_name() for task in asyncio.all_tasks()]
