"""A FastMCP server, stateless over HTTP, with the tool that the benchmark calls: ``--json`` answers as JSON alone."""

from __future__ import annotations

import socket
import sys
from importlib import import_module
from typing import Any

import uvicorn

# It is a peer of the benchmarks, and not in .venv, where types are checked.
fastmcp: Any = import_module("fastmcp")


def main() -> None:
    """Serve on a free port, without an access log, and print the address on stderr."""
    server = fastmcp.FastMCP("bench")

    async def look(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    server.tool(look)
    app = server.http_app(path="/mcp", stateless_http=True, json_response="--json" in sys.argv)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()  # before the address is told: connections wait until uvicorn has started
        print(f"FastMCP serves http://127.0.0.1:{bound.getsockname()[1]}", file=sys.stderr, flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([bound])


if __name__ == "__main__":
    main()
