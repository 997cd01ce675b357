"""The MCP interface: a session's tools for MCP clients, over HTTP and over standard streams.

Needs only the extra ``mcp``, nothing else of the server.
"""

from __future__ import annotations

from capset_server.mcp.http import McpDoor
from capset_server.mcp.stdio import serve_stdio

__all__ = ["McpDoor", "serve_stdio"]
