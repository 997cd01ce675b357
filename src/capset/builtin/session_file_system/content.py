"""A file's bytes as a model reads and writes them: text if possible, else base64 (spec 5, P22, P23)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Literal

from capset import ToolError

Encoding = Literal["text", "base64"]
TextUnit = Literal["lines", "characters"]
Unit = TextUnit | Literal["bytes"]


@dataclass(frozen=True, slots=True)
class ContentPart:
    """A part of a file: its beginning, the beginning of the next one, and the length of the whole, in ``unit``."""

    content: str
    encoding: Encoding
    unit: Unit
    total: int
    offset: int
    next: int


def text_of(data: bytes) -> str | None:
    """Return the bytes as text if they are UTF-8 without NUL, or ``None``."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def part_of(
    data: bytes, offset: int, limit: int | None, unit: TextUnit | None = None, *, room: int | None = None
) -> ContentPart:
    """Return at most ``limit`` lines or characters of a text, or bytes of anything else, from ``offset`` on.

    Only a line feed ends a line, and belongs to it: the joined parts of a file give the file. ``unit`` is by default
    lines, if there are any. With ``room`` the content takes at most so many bytes in JSON, though it is never empty; it
    has as many whole lines as fit, and if not even one does, the part is one of characters.

    Raises ``ToolError`` for an offset beyond the end, and for a unit of text for other content.
    """
    text = text_of(data)
    if text is None:
        if unit is not None:
            raise ToolError(f"the file is not text and has no {unit}: leave unit out, to count bytes", code="not_text")
        end = _end(offset, limit, len(data), "bytes")
        if room is not None:
            end = min(end, offset + max(room // 4 * 3, 1))  # three bytes are four characters
        return ContentPart(base64.b64encode(data[offset:end]).decode(), "base64", "bytes", len(data), offset, end)
    if unit == "characters":
        end = _end(offset, limit, len(text), unit)
        return _characters(text, offset, _fitting(text, offset, end, room))
    lines = text.count("\n") + (text[-1:] not in ("", "\n"))
    last = _end(offset, limit, lines, "lines")
    begin = _line(text, 0, offset)
    end = _line(text, begin, last - offset)
    fits = _fitting(text, begin, end, room)
    if fits == end:
        return ContentPart(text[begin:end], "text", "lines", lines, offset, last)
    cut = text.rfind("\n", begin, fits) + 1
    if cut <= begin:
        return _characters(text, begin, fits)
    return ContentPart(text[begin:cut], "text", "lines", lines, offset, offset + text.count("\n", begin, cut))


def bytes_of(content: str, encoding: Encoding) -> bytes:
    """Return the bytes to store. Raises ``ToolError`` for text that has no UTF-8 form, or invalid base64."""
    if encoding == "text":
        return utf8_of("content", content)
    try:
        return base64.b64decode(content, validate=True)
    except ValueError as error:
        raise ToolError(f"content is not valid base64: {error}") from None


def utf8_of(what: str, text: str) -> bytes:
    """Return a text as UTF-8. Raises ``ToolError``, beginning with ``what``, if it has no such form."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"{what}: there is a lone surrogate at position {error.start}, which has no UTF-8") from None


def _characters(text: str, begin: int, end: int) -> ContentPart:
    return ContentPart(text[begin:end], "text", "characters", len(text), begin, end)


def _line(text: str, begin: int, count: int) -> int:
    """Return the position of the line ``count`` lines after the one at ``begin``; the end after the last one."""
    for _ in range(count):
        begin = text.find("\n", begin) + 1
        if not begin:
            return len(text)
    return begin


def _fitting(text: str, begin: int, end: int, room: int | None) -> int:
    """Return the last position, up to ``end``, for which the text fits in JSON; at least one character on."""
    if room is None or begin == end:
        return end
    low, high = 1, max(min(end - begin, room), 1)  # a character takes at least one byte
    while low < high:
        middle = (low + high + 1) // 2
        if len(json.dumps(text[begin : begin + middle], ensure_ascii=False).encode()) - 2 <= room:
            low = middle
        else:
            high = middle - 1
    return begin + low


def _end(offset: int, limit: int | None, total: int, unit: Unit) -> int:
    if offset > total:
        raise ToolError(f"offset {offset} is beyond the end: the file has {total} {unit}")
    return total if limit is None else min(offset + limit, total)
