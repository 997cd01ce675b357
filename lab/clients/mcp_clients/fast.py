"""FastMCP's client as a program: a line of JSON for each call, and one for what became of it."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

# It is not in .venv, where types are checked.
fastmcp: Any = import_module("fastmcp")
transports: Any = import_module("fastmcp.client.transports")


async def main(server: str) -> None:
    """Make calls until there are no more."""
    settings = json.loads(server)
    if "command" in settings:
        transport = transports.StdioTransport(**settings, keep_alive=False)
    else:
        transport = transports.StreamableHttpTransport(settings["url"], auth=settings["key"])
    async with fastmcp.Client(transport) as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            result = await client.call_tool(**json.loads(line), raise_on_error=False)
            (content,) = result.content
            print(json.dumps([result.is_error, content.text]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
