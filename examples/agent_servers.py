"""An administrator gives a stored agent an MCP server by URL, over REST: look, approve, call. No network."""

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from capset.errors import NotFound
from capset_server.client import AgentInput, Client, data_of

CAPSET = Path(sys.executable).with_name("capset")
SHOP = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("shop")


@server.tool(structured_output=False)
def price(number: int) -> str:
    \"\"\"Say the price of an article.\"\"\"
    return f"{number} euros"


server.run("streamable-http", port=0)
"""


@contextmanager
def listening(folder: str, *command: str | Path) -> Generator[str]:
    """Run a program that says on stderr where it listens, and give its address."""
    quiet, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdout=quiet, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        try:
            match = next(candidate for line in process.stderr if (candidate := re.search(r"http://[\d.]+:\d+", line)))
            yield match[0]
        finally:
            process.terminate()
            process.communicate()


def make_key(folder: str, *options: str) -> str:
    """Make an API key, which is shown this once."""
    command = [CAPSET, "key", "create", "example", "--principal", "ada", "--org", "acme", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


async def work(url: str, shop: str, key: str) -> None:
    async with Client(url, key=key) as client:
        declared = {"shop": {"url": f"{shop}/mcp", "rules": {"price": {"effect": "read"}}}}
        definition = {"name": "seller", "capabilities": ["mcp:shop"], "mcp_servers": declared}
        agent = await client.agents.create(AgentInput.model_validate(definition))
        session = await client.sessions.create(agent.id)
        try:
            data_of(await client.call(session.id, "shop_price", {"number": 3}))
        except NotFound as error:
            print("before:", error)

        (tool,) = (await client.agents.server(agent.id, "shop")).tools
        assert tool.now is not None
        print(tool.tool, "is", tool.state, "and says:", tool.now["description"])
        assert tool.hash is not None
        await client.agents.approve_tools(agent.id, "shop", {tool.tool: tool.hash})

        print("after:", data_of(await client.call(session.id, "shop_price", {"number": 3})))
        async for record in client.records.all(act="mcp.approve"):
            print("record:", record["act"], "by", record["principal"])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "shop.py").write_text(SHOP)
        with (
            listening(folder, sys.executable, "shop.py") as shop,
            listening(folder, CAPSET, "serve", "--port", "0", "--agent-host", "acme=127.0.0.1") as url,
        ):
            asyncio.run(work(url, shop, make_key(folder, "--scope", "capset:admin")))


main()
