"""Servers of tools that the host declares."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from capset import Capability, Kernel
from capset_agents.runner import AgentRunner
from capset_connect.declared_sources import DeclaredSources
from capset_connect.mcp import McpServer, McpServers
from capset_connect.openapi import OpenApi, OpenApiClient
from capset_connect.vault.user_vault import UserVault
from tests.helpers.connect.mcp.urls import described, serving
from tests.helpers.connect.openapi.support import pets
from tests.helpers.connect.openapi.support import serving as serving_api
from tests.helpers.server.rest.market import Shop
from tests.helpers.server.support import Site, site

AT = "/v1/tool-sources"


@dataclass
class Wholesale:
    """A capset server whose operator declares a shop, an API, and one that is not there; ``boss`` is of ``acme``."""

    here: Site
    shop: Shop
    operator: httpx2.AsyncClient
    boss: httpx2.AsyncClient

    async def tools(self, id: str = "shop") -> dict[str, dict[str, Any]]:
        """Return the tools of a source by name, as an operator sees them."""
        response = await self.operator.get(f"{AT}/{id}")
        assert response.status_code == 200, response.text
        return {tool["tool"]: tool for tool in response.json()["tools"]}

    async def listed(self, client: httpx2.AsyncClient) -> dict[str, dict[str, Any]]:
        response = await client.get(AT)
        assert response.status_code == 200, response.text
        return {source["id"]: source for source in response.json()["items"]}


@asynccontextmanager
async def wholesale(
    store: str = "memory://",
    capabilities: Sequence[Capability] = (),
    rule: str = "price",
    more_servers: Sequence[McpServer] = (),
    runner: AgentRunner | None = None,
    vault: UserVault | None = None,
    **more: Any,
) -> AsyncGenerator[Wholesale]:
    """Serve it, with connections of its own, with these capabilities, and a rule for the tool of this name."""
    shop = Shop()
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(serving(shop.app()))
        animals = await stack.enter_async_context(serving_api(pets()))
        async with serving(described("Gone.")) as gone_server:
            gone = gone_server.url
        servers = [
            McpServer(name="shop", url=remote.url, internal=[remote.host], rules={rule: {"effect": "read"}}),
            McpServer(name="gone", url=gone, internal=["127.0.0.1"]),
            *more_servers,
        ]
        api = OpenApi(name="pets", document=f"{animals.url}/openapi.json", internal=[animals.host])

        def declared(kernel: Kernel) -> DeclaredSources:
            connections, client = McpServers(kernel.secrets), OpenApiClient(api, kernel.secrets)
            stack.push_async_exit(connections.__aexit__)

            def connection(source: McpServer | OpenApi) -> Any:
                return client if isinstance(source, OpenApi) else connections.connection(source)

            return DeclaredSources(kernel, [*servers, api], connection, **more)

        async with site(*capabilities, store=store, sources=declared, generator=runner, vault=vault) as server:
            await server.key("operator", org=None, scopes=["capset:admin"])
            await server.key("boss", scopes=["capset:admin"])
            async with server.client("operator") as operator, server.client("boss") as boss:
                yield Wholesale(server, shop, operator, boss)
