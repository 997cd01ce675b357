"""The official MCP client for Python as a program: a line of JSON for each call, and one for what became of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent


@asynccontextmanager
async def connected(mode: str, server: dict[str, Any]) -> AsyncGenerator[Client]:
    """Connect to a server: a command, or a URL and a key."""
    if "command" in server:
        async with Client(StdioServerParameters(**server), mode=mode) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {server['key']}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(server["url"], http_client=http), mode=mode) as client,
    ):
        yield client


async def main(mode: str, server: str) -> None:
    """Make calls until there are no more."""
    async with connected(mode, json.loads(server)) as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            result = await client.call_tool(**json.loads(line))
            (content,) = result.content
            assert isinstance(content, TextContent)
            print(json.dumps([result.is_error, content.text]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
