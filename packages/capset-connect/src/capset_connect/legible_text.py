"""Text of others, for people who decide by it."""

from __future__ import annotations

import json
from typing import Final

from capset_connect.offers import is_hidden

_INDENTED: Final = json.JSONEncoder(indent=2, ensure_ascii=False)


def legible(text: str) -> str:
    """Return text with every character spelled out that is invisible, or changes the order of others."""
    spelled = {
        ord(character): f"\\u{{{ord(character):x}}}"
        for character in set(text)
        if is_hidden(character) or character == "\r"
    }
    return text.translate(spelled) if spelled else text


def indented(value: object, limit: int) -> tuple[str, bool]:
    """Return JSON data on several lines, as many characters of it as asked for, and whether that is all.

    The rest is not even made: where data are nested deeply, their indentation is a thousand times as long as they are.
    """
    parts, size = list[str](), 0
    for part in _INDENTED.iterencode(value):
        parts.append(part)
        size += len(part)
        if size > limit:
            return "".join(parts)[:limit], False
    return "".join(parts), True


def whole_data(value: object, limit: int) -> str:
    """Return all of some JSON data: on several lines if that takes no more than so many characters, or else on one."""
    text, is_whole = indented(value, limit)
    return text if is_whole else json.dumps(value, ensure_ascii=False)
