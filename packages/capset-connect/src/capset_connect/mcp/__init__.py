"""Tools of MCP servers, pinned and governed like any other (spec 7)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from capset.extras import install_command
from capset_connect.mcp.server import McpServer

if TYPE_CHECKING:
    from capset_connect.mcp.servers import McpServers, open_mcp_servers
    from capset_connect.pins.tool_pins import approve

__all__ = ["McpServer", "McpServers", "approve", "open_mcp_servers"]
_PLACES: Final = {
    "McpServers": "capset_connect.mcp.servers",
    "approve": "capset_connect.pins.tool_pins",
    "open_mcp_servers": "capset_connect.mcp.servers",
}


def __getattr__(name: str) -> Any:  # lazy, because importing the MCP SDK takes half a second
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_PLACES[name]), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("mcp", "mcp_types", "httpx2", "httpcore2"):
            raise
        raise ModuleNotFoundError(
            f"capset_connect.mcp.{name} needs the MCP SDK: {install_command('mcp')}", name=missing.name
        ) from None
