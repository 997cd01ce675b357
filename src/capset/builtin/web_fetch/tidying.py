"""A page in pieces that a converter can take: small, well-formed, not deep, and only with what will be read.

The page is somebody else's and may mean harm. Parsers of HTML need time that grows with the square of the length of
markup that is crooked enough, and memory of hundreds of times its size; so what reaches the converter is written anew
here, in one pass whose time grows with the length of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from capset.builtin.web_fetch.elements import CELLS, EMPHASIS, ENDS, RAW, UNREAD, WRAPPERS, WRITTEN
from capset.builtin.web_fetch.links import Links
from capset.builtin.web_fetch.markup import MARKUP, after_aside, attributes, code_of, is_hidden, number_of, quoted
from capset.builtin.web_fetch.stack import Open
from capset.builtin.web_fetch.tables import Columns

MAX_TAGS: Final = 200_000
"""How many elements of a page are converted."""

PIECE_TAGS: Final = 4_000
PIECE_CHARACTERS: Final = 128_000
"""A piece ends between two blocks once it is as large; inside of one, at three times that."""

_TABLE: Final = re.compile(r"<(/?)table(?=[\s/>])", re.IGNORECASE)
_PARTS: Final = frozenset({"table", "tr", "td", "th", "thead", "tbody", "tfoot", "caption", "colgroup", "col"})
_ROWS: Final = frozenset({"table", "tr"})
_SHOWN: Final = frozenset({"a", "img", "ol", *WRITTEN})


class TooLargeError(Exception):
    """The page has more elements than are converted."""


class Page:
    """One page, read once from its beginning to its end."""

    def __init__(self, html: str, links: Links) -> None:
        self._html, self._links = html, links
        self._open = Open()
        self._tables: list[Columns | None] = []
        """The open tables; None for one that only lays out others, whose cells are read as blocks."""
        self._endings: dict[str, re.Pattern[str]] = {}
        self._endless: set[str] = set()

    def pieces(self) -> Iterator[str]:
        """Yield the page as pieces of well-formed HTML, to be converted one by one.

        Raises:
            TooLargeError: after the last piece, when the page has more than ``MAX_TAGS`` elements.
        """
        html, size, search, opened = self._html, len(self._html), MARKUP.search, self._open
        at = began = tags = 0
        while True:
            match = search(html, at)
            upto = match.start() if match else size
            while upto - at > PIECE_CHARACTERS:
                middle = at + PIECE_CHARACTERS
                space = max(html.rfind(" ", at, middle), html.rfind("\n", at, middle))
                self._text(html[at : (middle := space if space > at else middle)])
                yield opened.cut()
                at = began = middle
            if upto > at:
                self._text(html[at:upto])
            if match is None:
                break
            if match[2] is None:
                at = after_aside(html, upto)
            elif match[1]:
                at = match.end()
                self._end(match[2].lower())
            else:
                at = self._start(match[2].lower(), match)
            grown, read = opened.tags - tags, at - began
            if grown > PIECE_TAGS or read > PIECE_CHARACTERS:
                large = grown > 3 * PIECE_TAGS or read > 3 * PIECE_CHARACTERS
                if large or all(name in WRAPPERS for name in opened.names):
                    yield opened.cut()
                    began, tags = at, opened.tags
                    if tags > MAX_TAGS:
                        raise TooLargeError
        yield opened.cut()

    def _text(self, text: str) -> None:
        if self._tables and not text.isspace():
            self._into_cell()
        # What is no markup to us is to be none to the converter.
        self._open.write(text.replace("<", "&lt;") if "<" in text else text)

    def _start(self, name: str, match: re.Match[str]) -> int:  # noqa: PLR0912
        """Read the start of an element; return where to read on."""
        end, opened, names = match.end(), self._open, self._open.names
        if name in UNREAD:
            beyond = self._beyond(name, end)
            return beyond[1] if beyond else len(self._html) if name in RAW else end
        if rule := ENDS.get(name):
            opened.end_nearest(*rule)
        if name in _PARTS:
            self._part(name, match)
            return end
        if self._tables and name in _SHOWN:
            self._into_cell()
        first, last = match.span(3)
        if last > first and is_hidden(self._html, first, last) and name in _SHOWN:
            opened.push(name, "<div hidden>", "</div>")
        elif name == "a":
            href = attributes(self._html, first, last).get("href")
            address = None if href is None or "code" in names else self._links.link(href)
            opened.push(name, *(("", "") if address is None else (f'<a href="{quoted(address)}">', "</a>")))
        elif name == "pre":
            return self._code(first, last, end)
        elif written := WRITTEN.get(name):
            opened.push(name, *(("", "") if name in EMPHASIS and name in names else written))
        elif name in {"br", "hr"}:
            opened.write(f"<{name}>")
        elif name == "img":
            self._image(attributes(self._html, first, last))
        elif name == "ol":
            start = number_of(self._html, first, last, "start", most=999_999_999)
            opened.push(name, f'<ol start="{start}">', "</ol>")
        elif name == "base":
            self._links.rebase(attributes(self._html, first, last).get("href", ""))
        elif name in names:
            opened.push(name, "", "")
        return end

    def _end(self, name: str) -> None:
        if name in CELLS and self._tables and (table := self._tables[-1]) and table.full:
            return  # what is in further cells belongs to the last one
        self._open.end(name, again=name in EMPHASIS)
        if name == "table":
            del self._tables[self._open.names.count("table") :]

    def _part(self, name: str, match: re.Match[str]) -> None:
        opened, tables = self._open, self._tables
        if name == "table":
            following = _TABLE.search(self._html, match.end())
            lays_out = following is not None and not following[1]
            if opened.push(name, *(("<div>", "</div>") if lays_out else ("<table>", "</table>"))):
                tables.append(None if lays_out else Columns())
        elif not tables or tables[-1] is None:
            opened.push(name, "<div>", "</div>")
        elif name == "tr":
            self._row(tables[-1])
        elif name in CELLS:
            self._cell(tables[-1], name, match.span(3))
        elif name == "caption":
            opened.push(name, "<caption>", "</caption>")

    def _row(self, table: Columns) -> None:
        if self._open.push("tr", "<tr>", "</tr>"):
            table.next_row()

    def _cell(self, table: Columns, name: str, span: tuple[int, int]) -> None:
        if self._open.names[-1] == "table":
            self._row(table)
        if table.full:
            self._open.write(" ")
            return
        wide = number_of(self._html, *span, "colspan", most=1_000)
        high = number_of(self._html, *span, "rowspan", most=1_000)
        before, after = table.place(wide, high)
        self._open.tags += before + after
        self._open.write("<td></td>" * before)
        self._open.push(name, f"<{name}>", f"</{name}>" + "<td></td>" * after)

    def _into_cell(self) -> None:
        """See to it that what stands in a table stands in a cell of it."""
        if (table := self._tables[-1]) is not None and self._open.names[-1] in _ROWS:
            self._cell(table, "td", (0, 0))

    def _image(self, found: dict[str, str]) -> None:
        address = self._links.resource(found.get("src", ""))
        text = quoted(" ".join(found.get("alt", "").split()))
        self._open.write(f'<img src="{quoted(address)}" alt="{text}">' if address else text)

    def _code(self, first: int, last: int, end: int) -> int:
        beyond = self._beyond("pre", end)
        if beyond is None:
            self._open.push("pre", "<div>", "</div>")
            return end
        self._open.write(code_of(self._html, first, last, beyond[0]))
        return beyond[1]

    def _beyond(self, name: str, at: int) -> tuple[int, int] | None:
        """Return from where to where the end of an element stands in which none is looked for; None without one."""
        if name in self._endless:
            return None
        ending = self._endings.get(name)
        if ending is None:
            ending = self._endings[name] = re.compile(f"</{name}(?=[\\s/>])[^>]*+(?:>|\\Z)", re.IGNORECASE)
        if found := ending.search(self._html, at):
            return found.span()
        self._endless.add(name)
        return None
