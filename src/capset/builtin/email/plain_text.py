"""The text of HTML, for those who read email without it.

It takes linear time on any input, which the standard library's parser does not guarantee.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Final

_PIECE: Final = re.compile(r"""<!--|-->|</?[a-zA-Z][a-zA-Z0-9]*|<[!?/]|[>"']|[^<>"'-]+|.""", re.DOTALL)
_HREF: Final = re.compile(r"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_BLOCKS: Final = frozenset(
    {
        *("address", "article", "blockquote", "br", "dd", "div", "dl", "dt", "footer", "h1", "h2", "h3", "h4", "h5"),
        *("h6", "header", "hr", "li", "ol", "p", "pre", "section", "table", "tr", "ul"),
    }
)
_HIDDEN: Final = frozenset({"script", "style", "title", "template"})
_LINKS: Final = ("https://", "http://", "mailto:")
_NOTHING: Final = "This email is in HTML and has no text."


def plain_text(html: str) -> str:
    """Return the text of HTML: its blocks as lines, its items with a dash, its links followed by their addresses."""
    reading = _Reading()
    for piece in _PIECE.finditer(html):
        reading.take(piece[0])
    return reading.text()


class _Reading:
    """Reads piece by piece; unclosed markup ends with the text, as it does in browsers."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._link: str | None = None
        self._hidden: str | None = None
        """The element whose content is skipped, until its end."""
        self._tag: str | None = None
        self._attributes: list[str] = []
        self._until: str | None = None
        """The end of a comment, or of a quoted value in a tag."""

    def take(self, piece: str) -> None:
        if self._until is not None:
            if piece == self._until:
                self._until = None
            if self._tag is not None:
                self._attributes.append(piece)
        elif self._tag is not None:
            self._in_tag(piece)
        elif self._hidden is not None:
            if piece.lower() == f"</{self._hidden}":
                self._tag = piece
        elif piece == "<!--":
            self._until = "-->"
        elif len(piece) > 1 and piece[0] == "<":
            self._tag = piece
        else:
            self._said.append(_unescaped(piece))

    def text(self) -> str:
        lines = [" ".join(line.split()) for line in "".join(self._said).split("\0")]
        return "\n".join(line for line in lines if line) or _NOTHING

    def _in_tag(self, piece: str) -> None:
        if piece != ">":
            is_quote = piece in ("'", '"') and self._attributes and self._attributes[-1].rstrip().endswith("=")
            self._until = piece if is_quote else None
            self._attributes.append(piece)
            return
        tag, attributes = (self._tag or "")[1:].lower(), "".join(self._attributes)
        self._tag, self._attributes = None, []
        name = tag.lstrip("/")
        if name in _HIDDEN:
            self._hidden = None if tag.startswith("/") else name
        elif tag == "a":
            found = _HREF.search(attributes)
            link = _unescaped(next(filter(None, found.groups()), "")).strip() if found else ""
            self._link = link if link.lower().startswith(_LINKS) else None
        elif tag == "/a" and self._link is not None:
            self._said.append(f" ({self._link})")
            self._link = None
        elif name in _BLOCKS:
            self._said.append("\0- " if tag == "li" else "\0")
        elif name in ("td", "th"):
            self._said.append(" ")


def _unescaped(text: str) -> str:
    try:
        return unescape(text)
    except ValueError:  # a number of thousands of digits
        return text
