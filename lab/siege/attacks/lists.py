"""MCP servers that say more of their tools than anybody could read, looked at again and again."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from lab.siege.attack import Attack, Bounds, flood
from lab.siege.connection import Connection, request
from lab.siege.site import Site

_SERVERS = 8
_TOOL = {"name": "tool", "description": "A tool.", "inputSchema": {"type": "object"}}
_LENGTH = re.compile(rb"(?i)content-length: (\d+)")
_DONE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def _tool(number: int, **more: object) -> dict[str, object]:
    return {**_TOOL, "name": f"tool{number}", **more}


_NO_ITEMS: list[object] = []
_NO_ENTRIES: dict[str, object] = {}
_LISTS: tuple[list[dict[str, object]], ...] = (
    [_tool(number, description="x" * 200_000) for number in range(4)],
    [_tool(0, inputSchema={"type": "object", "x": [_NO_ITEMS] * 200_000})],
    [_tool(number, inputSchema={"type": "object", "x": [_NO_ENTRIES] * 2_000}) for number in range(60)],
    [_tool(number, description="\U0001f600" + "x" * 4_000) for number in range(180)],
)
"""Pages of long texts, of one deep schema, of many schemas, and of texts that take four times their size in memory."""


def _answer(path: str, message: dict[str, Any]) -> bytes:  # JSON
    """Return an answer: each page of tools says that there is another."""
    response: dict[str, object] = {"jsonrpc": "2.0", "id": message.get("id")}
    match message.get("method"):
        case "server/discover":
            discovery: dict[str, object] = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            response["result"] = {**discovery, "instructions": "x" * 800_000, **_DONE}
        case "tools/list":
            number = int(message["params"].get("cursor") or 0)
            tools = _LISTS[int(path.rpartition("/")[2]) % len(_LISTS)]
            named = [{**tool, "name": f"{tool['name']}-{number}"} for tool in tools]
            response["result"] = {"tools": named, "nextCursor": str(number + 1), **_DONE}
        case _:
            response["error"] = {"code": -32601, "message": "there is no such method"}
    return json.dumps(response, separators=(",", ":")).encode()


@asynccontextmanager
async def _hostile_servers() -> AsyncGenerator[int]:
    """Serve lists without end at every path, and yield the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                answer = _answer(head.split()[1].decode(), json.loads(body or b"{}"))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
                writer.write(b"content-length: %d\r\n\r\n%b" % (len(answer), answer))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _looks(site: Site, until: float) -> Counter[str]:
    """Look at the tools of an agent with eight hostile servers, four times at once."""
    async with _hostile_servers() as port, Connection(site.port) as connection:
        servers = {f"shop{number}": {"url": f"http://127.0.0.1:{port}/{number}"} for number in range(_SERVERS)}
        agent = {"name": "seller", "mcp_servers": servers, "capabilities": [f"mcp:{name}" for name in servers]}
        created = await connection.ask(request("POST", "/v1/agents", site.administrator, json.dumps(agent).encode()))
        if created.status != 201:
            return Counter({f"{created.status} for the agent": 1})
        http_request = request("GET", f"/v1/agents/{created.json['id']}/mcp-servers", site.administrator)
        remaining = max(1.0, until - time.monotonic())
        return await flood(site.port, time.monotonic() + remaining, http_request, connections=4, timeout=60.0)


ATTACKS = (Attack("hostile lists", _looks, frozenset({"200", "429", "503"}), Bounds(p99=0.5)),)
