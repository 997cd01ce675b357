"""HTML to text that is read: by the library, piece by piece, within bounds."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Final

from capset.builtin.web_fetch.charsets import without_controls
from capset.builtin.web_fetch.links import PageLinks
from capset.builtin.web_fetch.tidy_html import HtmlPage, TooLargeError

if TYPE_CHECKING:
    from html_to_markdown import ConversionOptions

MAX_CONVERTED: Final = 4_000_000
"""How long a converted page may become, in characters."""

CUT: Final = "\n\n[..the rest of the page is too large to convert...]"
"""Stands at the end of what was not converted as a whole."""

_TAG: Final = re.compile(r"<[^>]*+>")
_NEWLINES: Final = re.compile(r"\n{3,}")
_IN_BLOCKS: Final = r"[\s>*\-.0-9]{0,500}+"
_EMPTY_ROW: Final = re.compile(rf"{_IN_BLOCKS}\|[ |]*+\n[ >]*+\|(?: --- \|)++(?:\n|\Z)")
"""The first row of a table, with nothing in it, and the line that makes it its head."""
_ITEM: Final = re.compile(r"[ >]{0,500}+(?:[-*+]|\d+\.)(?:\s|\Z)")
_ENDS_IN_ROW: Final = re.compile(rf"{_IN_BLOCKS}\|.*\|\Z".encode())


def converted(html: str, base: str, options: ConversionOptions) -> str:
    """Convert a page; ``base`` is its address. What ends in ``CUT`` is its beginning only."""
    made = bytearray()  # in UTF-8, since one wide letter would make four bytes of every letter of a text
    length = 0
    try:
        for piece in HtmlPage(html, PageLinks(base)).pieces():
            part = _tidied(without_controls(_convert(piece.html, options)))  # entities may say them
            goes_on = piece.within == "table" or (piece.within == "list" and _ITEM.match(part))
            joint = b"\n" if goes_on else b"\n\n"
            if piece.within == "table" and (row := _EMPTY_ROW.match(part)):
                if _ENDS_IN_ROW.match(made, made.rfind(b"\n") + 1):
                    part = part[row.end() :]  # it goes on with the table
                else:
                    joint = b"\n\n"
            if part:
                made += joint if made else b""
                length += len(part) + 2
                if length > MAX_CONVERTED:
                    made += (part[: MAX_CONVERTED - length] + CUT).encode()
                    break
                made += part.encode()
    except TooLargeError:
        made += (CUT if made else CUT.lstrip()).encode()
    return made.decode()


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
    text = "\n".join([line.rstrip() for line in text.split("\n")])
    return (_NEWLINES.sub("\n\n", text) if "\n\n\n" in text else text).strip("\n")


def markdown_of(html: str, base: str) -> str:
    """Return a page as Markdown (CommonMark with the tables of GitHub); ``base`` is its address.

    Links are absolute, and those to ``javascript:``, ``data:`` and the like are left as their text. There are at most
    two newlines in a row, in code blocks too, and no white space at the end of a line. No markup makes it fail. Of a
    page with more than ``tidying.MAX_TAGS`` tags, or longer than ``converting.MAX_CONVERTED``, it is the
    beginning, followed by ``converting.CUT``.
    """
    from html_to_markdown import ConversionOptions

    return converted(html, base, ConversionOptions(extract_metadata=False, compact_tables=True, autolinks=False))


def text_of(html: str, base: str) -> str:
    """Return what a page says, without markup; ``base`` is its address. The bounds are those of ``markdown_of``."""
    from html_to_markdown import ConversionOptions

    return converted(html, base, ConversionOptions(extract_metadata=False, output_format="plain"))
