"""A call by MCP to one of several servers."""

from __future__ import annotations

from typing import Any

import httpx2


async def ask_mcp(client: httpx2.AsyncClient, path: str, method: str, **more: Any) -> httpx2.Response:
    """Send a message of MCP."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    if (ticket := more.pop("session", None)) is not None:
        headers["Mcp-Session-Id"] = ticket
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": more.pop("params", {})}
    return await client.post(path, json=body, headers=headers)
