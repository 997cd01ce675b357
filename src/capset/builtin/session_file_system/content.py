"""A file's bytes as a model reads and writes them: text where they are text, else base64 (spec 5, P22, P23)."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from io import StringIO
from typing import Literal

from capset import ToolError

Encoding = Literal["text", "base64"]
Unit = Literal["lines", "bytes"]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a file. ``total`` is the length of the whole, ``next`` the end of the part, both in ``unit``."""

    content: str
    encoding: Encoding
    unit: Unit
    total: int
    next: int


def text_of(data: bytes) -> str | None:
    """Return the text that these bytes are: UTF-8 without NUL. ``None`` if they are none."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def part_of(data: bytes, offset: int, limit: int | None) -> Part:
    """Return at most ``limit`` lines of a text, or bytes of anything else, from ``offset`` on.

    Only a line feed ends a line, which keeps it: the parts of a file, joined, give the file.
    Raises ``ToolError`` for an offset beyond the end.
    """
    text = text_of(data)
    if text is None:
        end = _end(offset, limit, len(data), "bytes")
        return Part(base64.b64encode(data[offset:end]).decode(), "base64", "bytes", len(data), end)
    # str.splitlines would also end lines at characters that no editor or grep does.
    lines = StringIO(text, newline="\n").readlines()
    end = _end(offset, limit, len(lines), "lines")
    return Part("".join(lines[offset:end]), "text", "lines", len(lines), end)


def bytes_of(content: str, encoding: Encoding) -> bytes:
    """Return the bytes to store. Raises ``ToolError`` for text that has no UTF-8, or what is not base64."""
    if encoding == "text":
        try:
            return content.encode()
        except UnicodeEncodeError as error:
            raise ToolError(
                f"content: there is a lone surrogate at position {error.start}, which has no UTF-8"
            ) from None
    try:
        return base64.b64decode(content, validate=True)
    except ValueError as error:
        raise ToolError(f"content is not valid base64: {error}") from None


def _end(offset: int, limit: int | None, total: int, unit: Unit) -> int:
    if offset > total:
        raise ToolError(f"offset {offset} is beyond the end: the file has {total} {unit}")
    return total if limit is None else min(offset + limit, total)
