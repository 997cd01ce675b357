"""The markup of HTML in a page: elements, tags, attributes, comments (spec 5, P27)."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from html import unescape
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from capset_tools.web_fetch.stack import LISTS, Element

UNREAD: Final = frozenset({
    "script", "style", "template", "svg", "iframe", "object", "applet", "audio", "video", "canvas", "select",
    "datalist", "textarea", "title", "noembed", "noframes", "annotation", "annotation-xml",
})  # fmt: skip
"""Elements that are left out with their content. ``noscript`` is shown, since no scripts run here."""

RAW: Final = frozenset({"script", "style", "textarea", "title", "iframe", "noembed", "noframes"})
"""Elements that contain no markup except their own end tag; an unclosed one extends to the end of the page."""

HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})

WRAPPERS: Final = frozenset({
    "html", "body", "div", "section", "article", "main", "header", "footer", "nav", "aside", "center", "form",
    "fieldset", "legend", "address", "hgroup", "dialog", "search", "menuitem", "figure", "optgroup", "noscript",
})  # fmt: skip
"""Elements that only divide the text into blocks."""

EMPHASIS: Final = frozenset({
    "b", "strong", "i", "em", "s", "strike", "del", "code", "tt", "kbd", "samp", "mark", "q", "a",
})  # fmt: skip
"""Inline elements, which may overlap with others in careless markup."""

_SAME: Final = HEADINGS | {
    "p", "ul", "dl", "dt", "dd", "li", "blockquote", "figcaption", "details", "summary",
    "b", "strong", "i", "em", "s", "del", "code", "kbd", "samp", "mark", "q",
}  # fmt: skip

WRITTEN: Final[Mapping[str, Element]] = {
    **{name: Element(f"<{name}>", f"</{name}>", droppable=name in EMPHASIS | HEADINGS) for name in _SAME},
    **dict.fromkeys(WRAPPERS, Element("<div>", "</div>")),
    "menu": Element("<ul>", "</ul>"),
    "dir": Element("<ul>", "</ul>"),
    "strike": Element("<s>", "</s>", droppable=True),
    "tt": Element("<code>", "</code>", droppable=True),
}
"""The output for each element; all others produce none."""

BLOCKS: Final = WRAPPERS | HEADINGS | {
    "p", "ul", "ol", "menu", "dir", "dl", "dt", "dd", "li", "blockquote", "pre", "table", "details",
    "summary", "figcaption", "hr", "caption",
}  # fmt: skip
"""Elements that end an open paragraph."""

CELLS: Final = frozenset({"td", "th"})

ENDS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    **dict.fromkeys(BLOCKS - HEADINGS, (frozenset({"p"}), CELLS | {"table"})),
    **dict.fromkeys(HEADINGS, (HEADINGS | {"p"}, CELLS | {"table"} | LISTS)),
    "li": (frozenset({"li"}), LISTS | CELLS | {"table"}),
    "dt": (frozenset({"dt", "dd"}), CELLS | {"table", "dl"}),
    "dd": (frozenset({"dt", "dd"}), CELLS | {"table", "dl"}),
    "tr": (frozenset({"tr"}), frozenset({"table"})),
    **dict.fromkeys(("thead", "tbody", "tfoot"), (frozenset({"tr", "caption"}), frozenset({"table"}))),
    **dict.fromkeys(CELLS, (CELLS, frozenset({"table"}))),
    "a": (frozenset({"a"}), CELLS | {"table"}),
}
"""The open elements that each start tag closes, and the barriers of the search for them."""


def repeated(group: str, times: str) -> str:
    """Return a pattern that repeats a group ``times`` without backtracking.

    Before 3.11.5, Python matches possessive groups wrongly (gh-106052). Atomic groups have the same effect, but keep
    every repetition in memory, so up to 500 are matched at once.
    """
    if sys.version_info >= (3, 11, 5):
        return f"(?:{group}){times}+"
    return f"(?>(?:(?>(?:{group}){{1,500}})){times})" if times in ("*", "+") else f"(?>(?:{group}){times})"


_NAME: Final = r"[a-zA-Z][^\s/>]{0,31}+"
_SIMPLE: Final = "b|i|em|strong|code"
_VALUE: Final = repeated(r"""(?:"[^"]*+"|'[^']*+')""", "?")
_ATTRIBUTES: Final = repeated(rf"[^>=]++|=\s*+{_VALUE}", "*")
_CONTENT: Final = repeated(rf"[^<]++|<({_SIMPLE})>[^<]++</\3>", "*")
_CLOSED: Final = repeated(rf"({_CONTENT})</\1>", "?")
MARKUP: Final = re.compile(rf"<(?:({_NAME}){_ATTRIBUTES}(?:>{_CLOSED}|\Z)|/({_NAME})[^>]*+(?:>|\Z)|[!?]|/[^a-zA-Z])")
"""A start tag with its name, and with its content if that is text with at most simple emphasis; an end tag with its
name; or the beginning of a comment or the like.

It also matches a tag that is cut off by the end of the page, so that the rest need not be scanned again.
"""

RUN: Final = re.compile(repeated(rf"[^<]{{1,4000}}+|<({_SIMPLE})>[^<]{{1,4000}}+</\1>", "{1,32}"))
"""Text with at most simple emphasis."""

_CELLS: Final = repeated(r"\s*+<(t[dh])>[^<]{0,1000}+</\1>", "{1,16}")
CELLS_RUN: Final = re.compile(_CELLS)
ROWS_RUN: Final = re.compile(repeated(rf"\s*+<tr>{_CELLS}\s*+</tr>", "{1,16}"))
_ITEM: Final = repeated(rf"[^<]{{1,1000}}+|<({_SIMPLE})>[^<]{{1,1000}}+</\1>", "{0,16}")
ITEMS_RUN: Final = re.compile(repeated(rf"\s*+<li>{_ITEM}</li>", "{2,16}"))
"""Cells, rows, or items, without attributes and with such text only. Each pattern matches several at once."""

_ATTRIBUTE: Final = re.compile(
    r"([^\s/>=][^\s/>=]*+)" + repeated(r"""\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]++))""", "?")
)
_HREF: Final = re.compile(r'\s++href="([^"&]*+)"')
_MAX_ATTRIBUTES: Final = 16_000
"""How many characters of a tag are searched for attributes."""

_COMMENT_END: Final = re.compile(r"--!?>")
_LANGUAGE: Final = re.compile(r"""[\s"'=]lang(?:uage)?-([A-Za-z0-9_+#.-]{1,32}+)""")
_ABSURD: Final = re.compile(r"&#0*+[0-9]{8,}+;?")
_ZEROS: Final = re.compile(r"&#0{8,}+")
"""Character references with more digits than any character needs; Python parses at most 4,300."""
_QUOTED: Final = str.maketrans({"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;"})

MAX_ADDRESS: Final = 2_048
"""Maximum characters of a URL; of a link with a longer one, only the text is kept."""

_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*+:")
_OPENED: Final = frozenset({"http", "https", "mailto", "tel"})
_SHOWN: Final = frozenset({"http", "https"})
_UNSAFE: Final = re.compile(r"[^!#$%&'*+,\-./0-9:;=?@A-Z_a-z~]")
_SAFE: Final = re.compile(r"[A-Za-z0-9\-._~:/?#@!$&'*+,;=%]++")
_WHOLE: Final = re.compile(r"https?://[A-Za-z0-9]")
_LINE_ENDS: Final = re.compile(r"[\t\n\r]")
_CONTROLS: Final = "".join(map(chr, range(33)))


def quoted(text: str) -> str:
    """Escape a text for an attribute."""
    return text.translate(_QUOTED)


def resolved(text: str) -> str:
    """Resolve the entities in a text, however many digits they have."""
    if "&" not in text:
        return text
    return unescape(_ZEROS.sub("&#0", _ABSURD.sub("\ufffd", text)))


def attributes(html: str, first: int, last: int) -> dict[str, str]:
    """Return the attributes of a tag, with entities resolved; of several with the same name, the first counts."""
    by_name: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(html, first, min(last, first + _MAX_ATTRIBUTES)):
        name, double, single, bare = match.groups("")
        value = double or single or bare
        by_name.setdefault(name.lower(), resolved(value))
    return by_name


def href_of(html: str, first: int, last: int) -> str | None:
    """Return the ``href`` of a tag."""
    if plain := _HREF.match(html, first, last):  # the usual form
        return plain[1]
    return attributes(html, first, last).get("href")


def number_of(html: str, first: int, last: int, name: str, *, most: int) -> int:
    """Return the number in an attribute, from 1 to ``most``; 1 if there is none."""
    if html.find(name, first, min(last, first + _MAX_ATTRIBUTES)) < 0:
        return 1
    text = attributes(html, first, last).get(name, "").strip()
    return max(min(int(text[:10]), most), 1) if text.isascii() and text.isdecimal() else 1


def after_aside(html: str, at: int) -> int:
    """Return the end of a comment, or of markup that browsers treat as one."""
    if html.startswith("<!--", at):
        match = _COMMENT_END.search(html, at + 2)
        return match.end() if match else len(html)
    end = html.find(">", at + 2)
    return end + 1 if end >= 0 else len(html)


def language_of(html: str, first: int, last: int) -> str | None:
    """Return the language in the class of a ``<pre>``, or of a ``<code>`` at its beginning."""
    lead = html[first : min(last, first + 1_000)] + html[last : last + 1_000].partition(">")[0]
    match = _LANGUAGE.search(lead)
    return match[1] if match else None


def code(text: str, language: str | None) -> str:
    """Return plain text as a ``<pre>`` element, with its language if known."""
    text = text.replace("<", "&lt;")
    return f'<pre><code class="language-{language}">{text}</code></pre>' if language else f"<pre>{text}</pre>"


class PageLinks:
    """Makes URLs absolute, based on that of the page or on its first ``<base>``."""

    def __init__(self, page: str) -> None:
        self._based = False
        self._set(page)

    def rebase(self, href: str) -> None:
        """Apply the ``href`` of a ``<base>``; only the first valid one counts."""
        if not self._based and (base := self.resource(href)) is not None:
            self._based = True
            self._set(base)

    def link(self, href: str) -> str | None:
        """Return the URL of a link, or ``None`` for ``javascript:``, ``data:`` and others that cannot be visited."""
        return self._absolute(href, _OPENED)

    def resource(self, src: str) -> str | None:
        """Return the URL of an image, or ``None`` unless it is http or https."""
        return self._absolute(src, _SHOWN) if src else None

    def _set(self, base: str) -> None:
        self._base, self._page = base, base.partition("#")[0]
        parts = urlsplit(base)
        self._origin = f"{parts.scheme}://{parts.netloc}"

    def _absolute(self, raw: str, schemes: frozenset[str]) -> str | None:
        if len(raw) > MAX_ADDRESS:
            return None
        if _SAFE.fullmatch(raw) and "/." not in raw:  # already normalised: skip urljoin, which is slow
            if raw[0] == "/" and not raw.startswith("//"):
                return self._origin + raw
            if raw[0] == "#":
                return self._page + raw
            if _WHOLE.match(raw):
                return raw
        # Browsers drop line ends and tabs before they look for the scheme.
        text = _LINE_ENDS.sub("", raw).strip(_CONTROLS)
        try:
            address = text if _SCHEME.match(text) else urljoin(self._base, text.replace("\\", "/"))
            parts = urlsplit(address)
        except ValueError:
            return None
        if parts.scheme not in schemes or (parts.scheme in _SHOWN and not parts.netloc):
            return None
        return _UNSAFE.sub(lambda match: quote(match[0], safe="", errors="replace"), address)
