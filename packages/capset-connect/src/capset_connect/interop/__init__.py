"""Interoperability: import and export of tool definitions as JSON, and published descriptions of agents (spec 8)."""

from __future__ import annotations

from capset_connect.interop.bundle import Bundle, BundledAgent, bundled_file, export_bundle
from capset_connect.interop.configurations import ToolConfiguration, configuration_of
from capset_connect.interop.definitions import DefinedTool, ToolReading, read_tools
from capset_connect.interop.exports import Export, ToolFormat, export_json_schema, export_tools
from capset_connect.interop.imports import ImportedTools, ImportOptions, ToolHandler, import_tools
from capset_connect.interop.publications import export_agent_card, export_server_json

__all__ = [
    "Bundle",
    "BundledAgent",
    "DefinedTool",
    "Export",
    "ImportOptions",
    "ImportedTools",
    "ToolConfiguration",
    "ToolFormat",
    "ToolHandler",
    "ToolReading",
    "bundled_file",
    "configuration_of",
    "export_agent_card",
    "export_bundle",
    "export_json_schema",
    "export_server_json",
    "export_tools",
    "import_tools",
    "read_tools",
]
