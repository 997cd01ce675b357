"""Conversion of HTML to readable text by a library, piece by piece and within limits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from capset_tools.web_fetch.charsets import without_controls
from capset_tools.web_fetch.markup import PageLinks, repeated, resolved
from capset_tools.web_fetch.tidy_html import HtmlPage, TooLargeError

if TYPE_CHECKING:
    from html_to_markdown import ConversionOptions

MAX_CONVERTED: Final = 4_000_000
"""Maximum characters of a converted page."""

CUT: Final = "\n\n[..the rest of the page is too large to convert...]"
"""Appended to a page that was not converted completely."""

_TAG: Final = re.compile(r"<[^>]*+>")
_NEWLINES: Final = re.compile(r"\n{3,}")
_IN_BLOCKS: Final = r"[\s>*\-.0-9]{0,500}+"
_RULES: Final = repeated(r" --- \|", "+")
_EMPTY_ROW: Final = re.compile(rf"{_IN_BLOCKS}\|[ |]*+\n[ >]*+\|{_RULES}(?:\n|\Z)")
"""The first row of a Markdown table if it is empty, with the line that makes it the header."""
_ITEM: Final = re.compile(r"[ >]{0,500}+(?:[-*+]|\d+\.)(?:\s|\Z)")
_ENDS_IN_ROW: Final = re.compile(rf"{_IN_BLOCKS}\|.*\|\Z".encode())


def converted(html: str, base: str, options: ConversionOptions) -> str:
    """Convert a page, whose URL is ``base``. A result that ends with ``CUT`` is only the beginning."""
    output = bytearray()  # in UTF-8, since one wide character would quadruple the memory of a text
    length = 0
    try:
        for piece in HtmlPage(html, PageLinks(base)).pieces():
            part = _tidied(without_controls(_convert(piece.html, options)))  # entities may encode control characters
            goes_on = piece.within == "table" or (piece.within == "list" and _ITEM.match(part))
            joint = b"\n" if goes_on else b"\n\n"
            if piece.within == "table" and (row := _EMPTY_ROW.match(part)):
                if _ENDS_IN_ROW.match(output, output.rfind(b"\n") + 1):
                    part = part[row.end() :]  # it continues the table
                else:
                    joint = b"\n\n"
            if part:
                output += joint if output else b""
                length += len(part) + 2
                if length > MAX_CONVERTED:
                    output += (part[: MAX_CONVERTED - length] + CUT).encode()
                    break
                output += part.encode()
    except TooLargeError:
        output += (CUT if output else CUT.lstrip()).encode()
    return output.decode()


def _convert(piece: str, options: ConversionOptions) -> str:
    from html_to_markdown import ConversionError, convert

    # The library refuses lone surrogates, and text that looks binary to it.
    clean = piece if piece.isascii() else piece.encode("utf-8", "replace").decode()
    try:
        return convert(clean.replace("\0", "\ufffd"), options).content or ""
    except ConversionError:
        return resolved(_TAG.sub(" ", clean))  # a bug in the library costs the formatting of a piece, not the page


def _tidied(text: str) -> str:
    """Remove white space at line ends, and empty lines after an empty line."""
    text = "\n".join([line.rstrip() for line in text.split("\n")])
    return (_NEWLINES.sub("\n\n", text) if "\n\n\n" in text else text).strip("\n")


def markdown_of(html: str, base: str) -> str:
    """Convert a page, whose URL is ``base``, to Markdown (CommonMark with GitHub's tables).

    Links are absolute; those to ``javascript:``, ``data:`` and the like are reduced to their text. There are at most
    two newlines in a row, in code blocks too, and no white space at line ends. No markup makes the conversion fail. Of
    a page with more than ``tidy_html.MAX_TAGS`` tags, or longer than ``MAX_CONVERTED``, only the beginning is
    converted, followed by ``CUT``.
    """
    from html_to_markdown import ConversionOptions

    return converted(html, base, ConversionOptions(extract_metadata=False, compact_tables=True, autolinks=False))


def text_of(html: str, base: str) -> str:
    """Convert a page, whose URL is ``base``, to text without markup. The limits are those of ``markdown_of``."""
    from html_to_markdown import ConversionOptions

    return converted(html, base, ConversionOptions(extract_metadata=False, output_format="plain"))
