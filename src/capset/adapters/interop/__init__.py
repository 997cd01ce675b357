"""Files of others: tool definitions as JSON, read and written, and descriptions of agents for others (spec 8)."""

from __future__ import annotations

from capset.adapters.interop.definitions import DefinedTool, ToolReading, read_tools
from capset.adapters.interop.imports import ImportedTools, ToolHandler, import_tools

__all__ = ["DefinedTool", "ImportedTools", "ToolHandler", "ToolReading", "import_tools", "read_tools"]
