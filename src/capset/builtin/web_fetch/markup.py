"""The markup of HTML as it stands in a page: tags, their attributes, comments, preformatted text."""

from __future__ import annotations

import re
from html import unescape
from typing import Final

MARKUP: Final = re.compile(
    r"""<(?:(/?)([a-zA-Z][^\s/>]{0,31}+)((?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+)(?:>|\Z)|[!?]|/[^a-zA-Z])"""
)
"""A tag, with whether it ends an element, its name and its attributes; or the beginning of something like a comment.

A tag that the page ends within is one too, so that no second look beyond it is needed.
"""

_ATTRIBUTE: Final = re.compile(r"""([^\s/>=][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]++)))?+""")
_MAX_ATTRIBUTES: Final = 16_000
"""How far into a tag attributes are looked for, in characters."""

_COMMENT_END: Final = re.compile(r"--!?>")
_UNDISPLAYED: Final = re.compile(r"display\s*+:\s*+none", re.IGNORECASE)
_LANGUAGE: Final = re.compile(r"""[\s"'=]lang(?:uage)?-([A-Za-z0-9_+#.-]{1,32}+)""")
_LINE_END: Final = re.compile(r"br(?![^\s/])", re.IGNORECASE)
_QUOTED: Final = str.maketrans({"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;"})


def quoted(text: str) -> str:
    """Return a text as it stands in an attribute."""
    return text.translate(_QUOTED)


def attributes(html: str, first: int, last: int) -> dict[str, str]:
    """Return the attributes of a tag, their values with entities resolved; the first of a name counts."""
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(html, first, min(last, first + _MAX_ATTRIBUTES)):
        found.setdefault(match[1].lower(), unescape(match[2] or match[3] or match[4] or ""))
    return found


def is_hidden(html: str, first: int, last: int) -> bool:
    """Return whether the attributes of a tag say that it is not displayed."""
    last = min(last, first + _MAX_ATTRIBUTES)
    if html.find("hidden", first, last) < 0 and html.find("none", first, last) < 0:
        return False
    found = attributes(html, first, last)
    return "hidden" in found or _UNDISPLAYED.search(found.get("style", "")) is not None


def number_of(html: str, first: int, last: int, name: str, *, most: int) -> int:
    """Return a number from 1 that an attribute says; 1 without one."""
    if html.find(name, first, min(last, first + _MAX_ATTRIBUTES)) < 0:
        return 1
    text = attributes(html, first, last).get(name, "").strip()
    return max(min(int(text[:10]), most), 1) if text.isascii() and text.isdecimal() else 1


def after_aside(html: str, at: int) -> int:
    """Return where a comment ends, or what browsers treat as one."""
    if html.startswith("<!--", at):
        found = _COMMENT_END.search(html, at + 2)
        return found.end() if found else len(html)
    end = html.find(">", at + 2)
    return end + 1 if end >= 0 else len(html)


def code_of(html: str, first: int, last: int, end: int) -> str:
    """Return what stands in a ``<pre>`` whose attributes begin and end as said, without the markup in it."""
    lead = html[first : min(last, first + 1_000)] + html[last + 1 : min(end, last + 1_000)].partition(">")[0]
    language = _LANGUAGE.search(lead)
    parts: list[str] = []
    at = last + 1
    while match := MARKUP.search(html, at, end):
        parts.append(html[at : match.start()])
        if match[2] is None:
            at = min(after_aside(html, match.start()), end)
            continue
        if _LINE_END.fullmatch(match[2]):
            parts.append("\n")
        at = match.end()
    parts.append(html[at:end])
    text = "".join(parts).replace("<", "&lt;")
    return f'<pre><code class="language-{language[1]}">{text}</code></pre>' if language else f"<pre>{text}</pre>"
