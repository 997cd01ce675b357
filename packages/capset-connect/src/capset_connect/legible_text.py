"""Display of untrusted text to people who make decisions based on it."""

from __future__ import annotations

import json
from typing import Final

from capset_connect.pins.offers import is_hidden

_INDENTED: Final = json.JSONEncoder(indent=2, ensure_ascii=False)


def legible(text: str) -> str:
    """Return text in which invisible and bidirectional control characters are escaped."""
    spelled = {
        ord(character): f"\\u{{{ord(character):x}}}"
        for character in set(text)
        if is_hidden(character) or character == "\r"
    }
    return text.translate(spelled) if spelled else text


def indented(value: object, limit: int) -> tuple[str, bool]:
    """Return up to ``limit`` characters of JSON data, indented on several lines, and whether that is all of it.

    The rest is never built, because the indentation of deeply nested data can be a thousand times as long as the data.
    """
    parts, size = list[str](), 0
    for part in _INDENTED.iterencode(value):
        parts.append(part)
        size += len(part)
        if size > limit:
            return "".join(parts)[:limit], False
    return "".join(parts), True


def whole_data(value: object, limit: int) -> str:
    """Return JSON data in full: indented if that takes at most ``limit`` characters, otherwise on one line."""
    text, is_whole = indented(value, limit)
    return text if is_whole else json.dumps(value, ensure_ascii=False)
