"""A file's bytes as a model reads and writes them: text if possible, else base64 (spec 5, P22, P23)."""

from __future__ import annotations

import base64
import json
import sys
from codecs import getincrementaldecoder
from dataclasses import dataclass
from typing import Literal

from capset import ToolError

Encoding = Literal["text", "base64"]
TextUnit = Literal["lines", "characters"]
Unit = TextUnit | Literal["bytes"]


@dataclass(frozen=True, slots=True)
class ContentPart:
    """A part of a file. ``offset``, ``next`` (the offset of the next part) and ``total`` (the file) count ``unit``."""

    content: str
    encoding: Encoding
    unit: Unit
    total: int
    offset: int
    next: int


def text_of(data: bytes) -> str | None:
    """Return the bytes as text if they are UTF-8 without NUL, else ``None``."""
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

    Only a line feed ends a line. It belongs to the line, so the joined parts of a file give the file. ``unit`` is lines
    by default for text. With ``room``, the content takes at most that many bytes in JSON, but is never empty: it has as
    many whole lines as fit, or counts characters if not even one line fits.

    Raises ``ToolError`` for an offset beyond the end, and for a ``unit`` if the content is not text.
    """
    reader = PartReader(offset, limit, unit, room)
    reader.feed(data, final=True)
    if reader.is_text:
        return reader.text_part()
    end = reader.end_of_bytes(len(data))
    return reader.bytes_part(data[offset:end], len(data))


class PartReader:
    """``part_of`` for a file that is fed piece by piece. Keeps only the part, and no more of it than there is room.

    Once ``is_text`` is false, no more pieces are needed: the part consists of bytes, up to ``end_of_bytes``.
    """

    def __init__(self, offset: int, limit: int | None, unit: TextUnit | None, room: int | None) -> None:
        self._offset = offset
        self._limit = limit
        self._unit = unit
        self._room = room
        self._most = sys.maxsize if room is None else room + 1  # a character takes a byte; one more shows a cut
        self._decoder = getincrementaldecoder("utf-8")()
        self._characters = self._line_feeds = 0
        self._ends_line = True
        self._begin: int | None = None
        self._text = ""
        self.is_text = True

    def feed(self, data: bytes, *, final: bool) -> None:
        """Read the next piece of the file; ``final`` marks the last one."""
        if not self.is_text:
            return
        try:
            text = self._decoder.decode(data, final)
        except UnicodeDecodeError:
            self.is_text = False
            return
        if "\0" in text:
            self.is_text = False
            return
        if self._begin is None and (position := self._position(text)) is not None:
            self._begin = self._characters + position
            self._text = text[position : position + self._most]
        elif self._begin is not None and len(self._text) < self._most:
            self._text += text[: self._most - len(self._text)]
        self._characters += len(text)
        self._line_feeds += text.count("\n")
        self._ends_line = text.endswith("\n") if text else self._ends_line

    def _position(self, text: str) -> int | None:
        """Return where the part begins in this text, or ``None`` if it begins later."""
        if self._unit == "characters":
            position = self._offset - self._characters
            return position if position <= len(text) else None
        skipped = self._offset - self._line_feeds
        return _line(text, 0, skipped) if text.count("\n") >= skipped else None

    def text_part(self) -> ContentPart:
        """Return the part, once the whole text was fed. Raises ``ToolError`` for an offset beyond the end."""
        text, begin = self._text, self._characters if self._begin is None else self._begin
        if self._unit == "characters":
            size = _end(self._offset, self._limit, self._characters, "characters") - self._offset
            return self._characters_part(begin, _fitting(text, min(size, len(text)), self._room))
        lines = self._line_feeds + (not self._ends_line)
        last = _end(self._offset, self._limit, lines, "lines")
        end = _line(text, 0, last - self._offset)
        fits = _fitting(text, end, self._room)
        if fits == end:
            return ContentPart(text[:end], "text", "lines", lines, self._offset, last)
        cut = text.rfind("\n", 0, fits) + 1
        if not cut:
            return self._characters_part(begin, fits)
        return ContentPart(text[:cut], "text", "lines", lines, self._offset, self._offset + text.count("\n", 0, cut))

    def _characters_part(self, begin: int, size: int) -> ContentPart:
        return ContentPart(self._text[:size], "text", "characters", self._characters, begin, begin + size)

    def end_of_bytes(self, total: int) -> int:
        """Return where the part ends in a file of ``total`` bytes that is not text.

        Raises ``ToolError`` for an offset beyond the end, and if lines or characters were requested.
        """
        if self._unit is not None:
            raise ToolError(
                f"the file is not text and has no {self._unit}: leave unit out, to count bytes", code="not_text"
            )
        end = _end(self._offset, self._limit, total, "bytes")
        # Three bytes are four characters of base64.
        return end if self._room is None else min(end, self._offset + max(self._room // 4 * 3, 1))

    def bytes_part(self, data: bytes, total: int) -> ContentPart:
        """Return the part with these bytes of a file of ``total`` bytes."""
        content = base64.b64encode(data).decode()
        return ContentPart(content, "base64", "bytes", total, self._offset, self._offset + len(data))


def bytes_of(content: str, encoding: Encoding) -> bytes:
    """Return the bytes to store. Raises ``ToolError`` for text that UTF-8 cannot encode, and for invalid base64."""
    if encoding == "text":
        return utf8_of("content", content)
    try:
        return base64.b64decode(content, validate=True)
    except ValueError as error:
        raise ToolError(f"content is not valid base64: {error}") from None


def utf8_of(what: str, text: str) -> bytes:
    """Encode a text as UTF-8. Raises ``ToolError``, with a message that begins with ``what``, if that fails."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"{what}: there is a lone surrogate at position {error.start}, which has no UTF-8") from None


def _line(text: str, begin: int, count: int) -> int:
    """Return the position of the line ``count`` lines after the one at ``begin``, or the end of the text."""
    for _ in range(count):
        begin = text.find("\n", begin) + 1
        if not begin:
            return len(text)
    return begin


def _fitting(text: str, end: int, room: int | None) -> int:
    """Return the last position up to ``end`` at which the text fits ``room`` bytes of JSON, but at least 1."""
    if room is None or not end:
        return end
    low, high = 1, max(min(end, room), 1)  # a character takes at least one byte
    while low < high:
        middle = (low + high + 1) // 2
        if len(json.dumps(text[:middle], ensure_ascii=False).encode()) - 2 <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _end(offset: int, limit: int | None, total: int, unit: Unit) -> int:
    if offset > total:
        raise ToolError(f"offset {offset} is beyond the end: the file has {total} {unit}")
    return total if limit is None else min(offset + limit, total)
