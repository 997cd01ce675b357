"""The official MCP client with an agent's tools: over standard streams, and over HTTP with a key. No network."""

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from capset_server.client import AgentInput
from capset_server.client import Client as Capset

CAPSET = Path(sys.executable).with_name("capset")
LIBRARIAN = Path(__file__).with_name("librarian.yaml")


async def use(client: Client) -> None:
    """Do what a model would: look at the tools, call one, and be refused by another."""
    tools = (await client.list_tools()).tools
    print(f"{len(tools)} tools:", ", ".join(tool.name for tool in tools))
    added = await client.call_tool("add", {"a": 2, "b": 3})
    print("2 + 3 =", added.structured_content)
    refused = await client.call_tool("add", {"a": "two", "b": 3})
    print("refused:", refused.is_error, refused.content[0])


async def over_streams(folder: str) -> None:
    """Start ``capset mcp`` as any MCP client does, by its command."""
    command = [*("mcp", "--agent", str(LIBRARIAN), "--grant", "session_files:read")]
    async with Client(StdioServerParameters(command=str(CAPSET), args=command, cwd=folder)) as client:
        await use(client)


async def over_http(url: str, key: str) -> None:
    """Make an agent over REST, and use its tools over MCP with the same key."""
    async with Capset(url, key=key) as capset:
        agent = await capset.agents.create(AgentInput(name="adder", capabilities=["test_math"]))
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http,
        Client(streamable_http_client(f"{url}/mcp/agents/{agent.id}", http_client=http)) as client,
    ):
        await use(client)


@contextmanager
def server(folder: str) -> Generator[str]:
    """Run a server on a free port, with a database in a folder, and give its address."""
    with subprocess.Popen([CAPSET, "serve", "--port", "0"], cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            match = re.search(r"http://\S+", process.stderr.readline())
            assert match is not None, "the server says first where it is"
            yield match[0]
        finally:
            process.terminate()
            process.communicate()


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(over_streams(folder))
    make = [CAPSET, *("key", "create", "example", "--principal", "ada", "--scope", "capset:write")]
    make += ["--scope", "capset:call"]
    key = subprocess.run(make, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
    with server(folder) as url:
        asyncio.run(over_http(url, key))
    records = subprocess.run([CAPSET, "audit", "query"], cwd=folder, capture_output=True, text=True, check=True).stdout
    print(records)
