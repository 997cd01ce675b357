"""HTML to text that is read: by the library, piece by piece, within bounds."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Final

from capset.builtin.web_fetch.links import Links
from capset.builtin.web_fetch.tidying import Page, TooLargeError

if TYPE_CHECKING:
    from html_to_markdown import ConversionOptions

MAX_CONVERTED: Final = 4_000_000
"""How long a converted page may become, in characters."""

CUT: Final = "\n\n[..the rest of the page is too large to convert...]"
"""Stands at the end of what was not converted as a whole."""

_TAG: Final = re.compile(r"<[^>]*+>")
_NEWLINES: Final = re.compile(r"\n{3,}")


def converted(html: str, base: str, options: ConversionOptions) -> str:
    """Convert a page; ``base`` is its address. What ends in ``CUT`` is its beginning only."""
    parts: list[str] = []
    length = 0
    try:
        for piece in Page(html, Links(base)).pieces():
            if part := _tidied(_convert(piece, options)):
                parts.append(part)
                length += len(part) + 2
                if length > MAX_CONVERTED:
                    parts[-1] = part[: MAX_CONVERTED - length] + CUT
                    break
    except TooLargeError:
        parts.append(CUT.lstrip())
    return "\n\n".join(parts)


def _convert(piece: str, options: ConversionOptions) -> str:
    from html_to_markdown import ConversionError, convert

    # The library refuses half a pair of surrogates, and what looks binary to it.
    clean = piece if piece.isascii() else piece.encode("utf-8", "replace").decode()
    try:
        return convert(clean.replace("\0", "\ufffd"), options).content or ""
    except ConversionError:
        return unescape(_TAG.sub(" ", clean))  # a mistake of the library's costs the form of a piece, not the page


def _tidied(text: str) -> str:
    """Return a text without white space at the ends of its lines, and with no more than one empty line in a row."""
    return _NEWLINES.sub("\n\n", "\n".join([line.rstrip() for line in text.split("\n")])).strip("\n")
