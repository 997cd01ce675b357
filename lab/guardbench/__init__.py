"""MCP-GuardBench's cases with capset's gateway before its servers; ``make lab-guardbench`` runs them."""

from __future__ import annotations


class Failed(Exception):
    """Something without which nothing can be measured; its text says what."""
