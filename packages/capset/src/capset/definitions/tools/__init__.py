"""Tools: their definition, handlers, contracts and processors, and the toolkits that group them."""

from capset.definitions.tools.definition import AnyTool, Tool, tool

__all__ = ["AnyTool", "Tool", "tool"]
