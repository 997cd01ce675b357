"""BFCL's function documents as tools, and its possible answers held to these; ``make lab-bfcl`` runs it."""

from __future__ import annotations


class Failed(Exception):
    """Something without which nothing can be measured; its text says what."""
