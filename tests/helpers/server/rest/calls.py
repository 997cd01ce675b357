"""Events of a call."""

from __future__ import annotations

import json
from typing import Any

import httpx2

SSE = {"Accept": "text/event-stream"}


async def events(client: httpx2.AsyncClient, session: str, tool: str, **arguments: Any) -> list[tuple[str, Any]]:
    """Call a tool as a stream, and return every event with its data."""
    body = {"tool": tool, "arguments": arguments}
    received: list[tuple[str, Any]] = []
    async with client.stream("POST", f"/v1/sessions/{session}/calls", json=body, headers=SSE) as response:
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        text = "".join([part async for part in response.aiter_text()])
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            fields = dict(line.split(": ", 1) for line in lines)
            received.append((fields.get("event", "message"), json.loads(fields["data"])))
    return received
