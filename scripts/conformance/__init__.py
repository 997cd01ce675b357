"""The official MCP conformance suite against a real capset server; `make conformance` runs it."""

from __future__ import annotations


class Failed(Exception):
    """Something without which nothing can be tested; its text says what."""
