"""The official MCP conformance suite on a real capset server and on capset's MCP client: `make lab-conformance`."""

from __future__ import annotations


class Failed(Exception):
    """Something without which nothing can be tested; its text says what."""
