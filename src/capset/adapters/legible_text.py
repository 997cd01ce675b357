"""Text of others, for people who decide by it."""

from __future__ import annotations

from capset.adapters.offers import is_hidden


def legible(text: str) -> str:
    """Return text with every character spelled out that is invisible, or changes the order of others."""
    spelled = {ord(one): f"\\u{{{ord(one):x}}}" for one in set(text) if is_hidden(one) or one == "\r"}
    return text.translate(spelled) if spelled else text
