"""The second half of the demo: the same files and tools through the server's interfaces, and the records of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from capset.cli.common.exits import missing_modules
from capset.cli.common.output import cell, err, verbatim
from capset.cli.demo.display import show_doors, show_progress
from capset.cli.demo.imports import import_folders
from capset.cli.demo.server import serving
from capset.wire.agents import AgentInput
from capset.wire.operations import DoorShape

if TYPE_CHECKING:
    from capset.client import Client

NEEDED: Final = ("fastapi", "uvicorn", "httptools", "structlog", "httpx2", "mcp")
"""The modules of the extras ``server`` and ``mcp`` that this half needs."""


DOORS: Final = ["rest", "stream", "mcp"]
"""The interfaces, in the order of the demo; their names are the correlations of their calls."""


class RemoteFiles:
    """A session's files over REST, as far as an import needs them."""

    def __init__(self, client: Client, session: str) -> None:
        self._client = client
        self._session = session

    async def write(self, path: str, content: bytes) -> object:
        """Create or replace a file."""
        return await self._client.files.write(self._session, path, content)


async def walk_doors(console: Console, folder: Path, sources: list[Path]) -> list[DoorShape] | None:
    """Use every interface of a server, and return the records; ``None`` if the extras are not installed."""
    if missing := missing_modules(*NEEDED):
        err().print(f"[yellow]skipped:[/] the server needs pip install 'capset\\[server,mcp]' ({', '.join(missing)})")
        return None
    from capset.client import Client

    async with serving(folder) as server, Client(server.url, key=server.key) as client:
        console.print(f"capset serves {server.url}, and logs to {verbatim(str(folder / 'server.log'))}", soft_wrap=True)
        agent = await client.agents.create(
            AgentInput(name="surveyor", capabilities=["session_file_system", "test_math", "survey"])
        )
        session = (await client.sessions.create(agent.id)).id
        imported = await import_folders(RemoteFiles(client, session), sources)
        console.print(f"agent {agent.id}: {imported.files} files, {imported.size_bytes:,} bytes came in over REST")
        await client.call(session, "add", {"a": imported.files, "b": 1}, correlation="rest")
        await _stream(console, client, session)
        await _mcp(console, f"{server.url}/mcp/sessions/{session}", server.key)
        records = (await client.records.list(session=session)).items
    doors = [_door(record) for record in reversed(records)]
    show_doors(console, doors)
    return doors


async def _stream(console: Console, client: Client, session: str) -> None:
    """Call a slow tool, as a stream of events."""
    async with client.stream(session, "count_words", correlation="stream") as events:
        async for event in events:
            show_progress(console, event.data)
    data: Any = events.result.data
    console.print(f"  {data['files']} files, {data['words']:,} words; often: {cell(', '.join(data['frequent']))}")


async def _mcp(console: Console, url: str, key: str) -> None:
    """Find the same tools as an MCP client, with the official SDK, and call one."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {key}", "X-Correlation-Id": "mcp"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        tools = (await client.list_tools()).tools
        console.print(f"an MCP client finds {len(tools)} tools: {', '.join(tool.name for tool in tools)}")
        await client.call_tool("list_directory", {"path": "/"})


def _door(record: dict[str, Any]) -> DoorShape:
    return DoorShape(
        door=record["correlation"],
        tool=record["tool"],
        outcome=record["outcome"],
        runtime_hash=record["runtime_hash"],
        record=record["id"],
    )
