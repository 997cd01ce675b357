"""An MCP server for the benchmark of the gateway, stateless over HTTP: one tool, or as many as its argument says."""

from __future__ import annotations

import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer


def main() -> None:
    """Serve on a free port, without an access log, and print the address on stderr."""
    server = MCPServer("upstream")

    async def look(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    for number in range(int(sys.argv[1])):
        server.add_tool(look, name=f"look{number}")
    app = server.streamable_http_app(stateless_http=True)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()  # before the address is told: connections wait until uvicorn has started
        print(f"upstream serves http://127.0.0.1:{bound.getsockname()[1]}", file=sys.stderr, flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run([bound])


if __name__ == "__main__":
    main()
