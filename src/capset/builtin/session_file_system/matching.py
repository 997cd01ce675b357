"""Search in one text: a model's pattern, in linear time by RE2, and where it matches (spec 5, P24)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from capset import ToolError

LINE_CHARACTERS: Final = 500
"""A longer line is cut to this much of it, around the match."""
_LEAD: Final = 100
_MEMORY: Final = 2 << 20
"""Bytes for one compiled pattern; the library keeps the 128 last used."""


class Found(Protocol):
    """A match, its ends in bytes."""

    def start(self) -> int: ...


class Regex(Protocol):
    """What is used here of a pattern compiled by google-re2, which has no types of its own."""

    def search(self, text: bytes, pos: int = 0) -> Found | None: ...
    def fullmatch(self, text: bytes) -> Found | None: ...


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that matches. ``line`` and ``column`` count from 1, columns in characters."""

    line: int
    column: int
    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def compile_pattern(pattern: str) -> Regex:
    """Compile a pattern that matches within lines, ``^`` and ``$`` being their ends.

    Raises ``ToolError`` if it is malformed, or takes too much memory.
    """
    return compile_re2("pattern", pattern, "(?m)", never_nl=True)


def compile_re2(what: str, pattern: str, prefix: str = "", **options: bool) -> Regex:
    """Compile ``prefix + pattern`` with these options of RE2. Raises ``ToolError``, beginning with ``what``."""
    import re2  # pyright: ignore[reportMissingTypeStubs]

    untyped = cast("Any", re2)
    chosen = untyped.Options()
    chosen.log_errors = False
    chosen.max_mem = _MEMORY
    for name, value in options.items():
        setattr(chosen, name, value)
    try:
        return cast("Regex", untyped.compile(prefix + pattern, chosen))
    except untyped.error as error:
        why = error.args[0].decode(errors="replace").replace(f": {prefix}", ": ", 1)
        raise ToolError(
            f"{what} is not a valid RE2 expression (no look-around, no back-references): {why}",
            code="invalid_pattern",
        ) from None


def hits(regex: Regex, data: bytes, context: int) -> Iterator[Hit]:
    """Yield every matching line of UTF-8 text, once, at its first match, with ``context`` lines on both sides."""
    if not data:
        return
    # The end of the last line begins no further line, and a line's carriage return is no part of it.
    data = data.replace(b"\r\n", b"\n").removesuffix(b"\n")
    position, line = 0, 1
    while position <= len(data) and (found := regex.search(data, position)) is not None:
        begin = max(data.rfind(b"\n", position, found.start()) + 1, position)
        end = _line_end(data, begin)
        line += data.count(b"\n", position, begin)
        # A zero-width match may lie inside a character; it is told as the column of that character.
        column = len(data[begin : found.start()].decode(errors="ignore")) + 1
        yield Hit(
            line,
            column,
            _cut(data[begin:end].decode(), column),
            tuple(_lines_before(data, begin, context)),
            tuple(_lines_after(data, end, context)),
        )
        position = end + 1
        line += 1


def _lines_before(data: bytes, begin: int, count: int) -> list[str]:
    lines: list[str] = []
    while begin > 0 and len(lines) < count:
        end, begin = begin - 1, data.rfind(b"\n", 0, begin - 1) + 1
        lines.insert(0, _cut(data[begin:end].decode()))
    return lines


def _lines_after(data: bytes, end: int, count: int) -> list[str]:
    lines: list[str] = []
    while end < len(data) and len(lines) < count:
        begin, end = end + 1, _line_end(data, end + 1)
        lines.append(_cut(data[begin:end].decode()))
    return lines


def _line_end(data: bytes, begin: int) -> int:
    end = data.find(b"\n", begin)
    return len(data) if end < 0 else end


def _cut(text: str, column: int = 1) -> str:
    if len(text) <= LINE_CHARACTERS:
        return text
    begin = max(0, min(column - 1 - _LEAD, len(text) - LINE_CHARACTERS))
    end = begin + LINE_CHARACTERS
    return ("…" if begin else "") + text[begin:end] + ("…" if end < len(text) else "")
