"""Public MCP servers behind one gateway, beside what they answer directly; ``make lab-mcpservers`` runs it."""

from __future__ import annotations


class Failed(Exception):
    """Something without which nothing can be compared; its text says what."""
