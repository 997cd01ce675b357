"""Passages of a source's text: long enough to be meaningful and short enough to be shown (P18)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

PASSAGE: Final = 1_500
"""Maximum characters of a passage."""
_BLOCK: Final = re.compile(r"\n\s*\n")
_SENTENCE: Final = re.compile(r"(?<=[.!?。！？…])\s+|\n")
# Bounded and unambiguous, so that a hostile page cannot cause excessive backtracking.
_HEADING: Final = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+([^\n]{1,1000})", re.MULTILINE)
_BEGINNING: Final = 8_000
"""How many characters of a text are searched for its heading."""
_LINK: Final = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_MARKUP: Final = re.compile(r"[*`]+|\\(?=[^\w\s])")
_UNSTORED: Final = re.compile("[\0\ud800-\udfff]")
"""Characters that stores refuse: NUL and lone surrogates."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The stored part of a text: its cleaned beginning. ``sha256`` covers the whole original text, in UTF-8."""

    text: str
    is_whole: bool
    passages: list[str]
    heading: str | None
    sha256: str


def kept_of(text: str, most: int) -> Kept:
    """Prepare at most ``most`` characters of a text for storage. May be slow: run it in a thread."""
    cleaned = clean(text[:most])
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()
    return Kept(cleaned, len(text) <= most, passages_of(cleaned), heading_of(cleaned), digest)


def clean(text: str) -> str:
    """Strip a text, replace characters that stores refuse, and convert all line ends to LF.

    Unusual line separators become LF too, since a program that shows the text may begin a new line there.
    """
    return "\n".join(_UNSTORED.sub("\N{REPLACEMENT CHARACTER}", text).strip().splitlines())


def passages_of(text: str) -> list[str]:
    """Split a text into passages of whole blocks; a block that is too long is split between sentences or words.

    Only white space between passages is left out.
    """
    passages: list[str] = []
    for piece, glue in _pieces(text):
        if passages and len(passages[-1]) + len(glue) + len(piece) <= PASSAGE:
            passages[-1] += glue + piece
        else:
            passages.append(piece)
    return passages


def heading_of(text: str) -> str | None:
    """Return the words of the first Markdown heading at the beginning of a text, on one line, or ``None``."""
    for match in _HEADING.finditer(text, 0, _BEGINNING):
        words = match[1].rstrip(" \t#")
        if heading := " ".join(_MARKUP.sub("", _LINK.sub(r"\1", words)).split()):
            return heading
    return None


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield parts of at most ``PASSAGE`` characters, each with the separator before it."""
    for block in _BLOCK.split(text):
        glue = "\n\n"
        for sentence in [block] if len(block) <= PASSAGE else _SENTENCE.split(block):
            for part in _cut(sentence.strip()):
                yield part, glue
                glue = "\n"


def _cut(text: str) -> Iterator[str]:
    while len(text) > PASSAGE:
        at = text.rfind(" ", PASSAGE // 2, PASSAGE + 1)
        at = at if at > 0 else PASSAGE
        yield text[:at].rstrip()
        text = text[at:].lstrip()
    if text:
        yield text
