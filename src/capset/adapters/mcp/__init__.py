"""Tools of MCP servers, pinned and governed like any other (spec 7)."""

from capset.adapters.mcp.pins import approve
from capset.adapters.mcp.server import McpServer
from capset.adapters.mcp.tools import open_mcp_servers

__all__ = ["McpServer", "approve", "open_mcp_servers"]
