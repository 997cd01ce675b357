"""Lists of the caller, for the caller, and headers that agree with what is sent."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp_types import HEADER_MISMATCH

from capset import Agent, Capability, Context, Principal, tool
from capset.kernel.kernel import Kernel
from capset_server.mcp.exchanges import Exchange
from capset_server.mcp.protocol import make_server
from tests.helpers.server.mcp.support import Site, site

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


@tool(effect="read")
async def hello() -> str:
    """Greet."""
    return "hello"


async def post(server: Site, method: str, params: dict[str, Any], **headers: str) -> httpx2.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    sent = {
        "Accept": "application/json, text/event-stream",
        "Authorization": "Bearer ada",
        "MCP-Protocol-Version": "2026-07-28",
        **headers,
    }
    async with httpx2.AsyncClient() as http:
        return await http.post(f"{server.url}/mcp/agents/tester", json=message, headers=sent)


@pytest.mark.spec("M13")
async def test_lists_say_how_long_they_hold_and_for_whom() -> None:
    async with site() as server:
        for method in LISTS:
            result = (await post(server, method, {}, **{"Mcp-Method": method})).json()["result"]
            assert result["cacheScope"] == "private", method
            assert result["ttlMs"] == (0 if method == "resources/list" else 10_000), method


@pytest.mark.spec("M13")
async def test_what_changes_at_any_time_does_not_hold() -> None:
    def more(ctx: Context) -> list[Capability]:
        return []

    agent = Agent("tester", uses=[Capability("kit", tools=[hello]), more])
    async with (
        Kernel(store="memory://") as kernel,
        kernel.open(agent, principal=Principal("ada")) as session,
    ):
        exchange = Exchange(session)
        async with Client(make_server(lambda: exchange), mode="auto") as client:
            for listing in (await client.list_tools(), await client.list_prompts()):
                assert (listing.ttl_ms, listing.cache_scope) == (0, "private")


@pytest.mark.spec("M13")
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "echo", "arguments": {"text": "x"}}, "echo"),
        ("prompts/get", {"name": "review"}, "review"),
        ("resources/read", {"uri": "kit://a"}, "kit://a"),
    ],
)
async def test_headers_name_what_the_body_asks_for(method: str, params: dict[str, Any], name: str) -> None:
    async with site() as server:
        good = {"Mcp-Method": method, "Mcp-Name": name}
        wrong: list[dict[str, str]] = [
            {},
            {"Mcp-Method": method},
            {"Mcp-Name": name},
            {**good, "Mcp-Method": "tools/list"},
            {**good, "Mcp-Name": "other"},
        ]
        for headers in wrong:
            response = await post(server, method, params, **headers)
            assert response.status_code == 400, headers
            assert response.json()["error"]["code"] == HEADER_MISMATCH, headers
        assert (await post(server, method, params, **good)).json().get("error", {}).get("code") != HEADER_MISMATCH
