"""Text of others, for people who decide by it."""

from __future__ import annotations

from capset.adapters.offers import is_hidden


def legible(text: str) -> str:
    """Return text with every character spelled out that is invisible, or changes the order of others."""
    return text if text.isascii() and text.isprintable() else "".join(map(_spelled, text))


def _spelled(letter: str) -> str:
    return f"\\u{{{ord(letter):x}}}" if is_hidden(letter) or letter == "\r" else letter
