"""Splits a page into pieces that a converter can handle: small, well-formed, shallow, and only readable content.

The page is untrusted and may be hostile. For sufficiently malformed markup, HTML parsers take quadratic time, and
hundreds of times its size in memory, so the converter's input is generated here, in a single pass of linear time.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Final

from capset_tools.web_fetch.hidden_elements import HiddenElements
from capset_tools.web_fetch.markup import (
    BLOCKS,
    CELLS,
    CELLS_RUN,
    EMPHASIS,
    ENDS,
    ITEMS_RUN,
    MARKUP,
    RAW,
    ROWS_RUN,
    RUN,
    UNREAD,
    WRAPPERS,
    WRITTEN,
    PageLinks,
    after_aside,
    attributes,
    code,
    href_of,
    language_of,
    number_of,
    quoted,
)
from capset_tools.web_fetch.stack import EMPTY, NOTHING, Columns, Element, Open, Piece

MAX_TAGS: Final = 300_000
"""Maximum number of tags read from a page, and of parts (tags and texts) written for it."""

PIECE_TAGS: Final = 4_000
PIECE_CHARACTERS: Final = 128_000
"""A piece of this size ends between two blocks; at twice the size, between items or rows; at three times, anywhere."""

_TABLE: Final = re.compile(r"<(/?)table(?=[\s/>])", re.IGNORECASE)
_PARTS: Final = frozenset({"table", "tr", "td", "th", "thead", "tbody", "tfoot", "caption", "colgroup", "col"})
_ROWS: Final = frozenset({"table", "tr"})
_SPECIAL: Final = frozenset({"a", "base", "br", "hr", "img", "ol", "pre"})
_BLOCK: Final = Element("<div>", "</div>")
_LISTS: Final = frozenset({"ul", "ol"})
_LINKLESS: Final = frozenset({"a", "code"})
_ROW: Final = Element("<tr>", "</tr>")
_CELLS: Final = {name: Element(f"<{name}>", f"</{name}>") for name in CELLS}


class TooLargeError(Exception):
    """The page has too many tags to be read completely."""


class HtmlPage:
    """One page, read once from its beginning to its end."""

    def __init__(self, html: str, links: PageLinks) -> None:
        self._html, self._links = html, links
        self._open = Open()
        self._tables: list[Columns | None] = []
        """The open tables; ``None`` for a layout table, whose cells are read as blocks."""
        self._endings: dict[str, re.Pattern[str]] = {}
        self._endless: set[str] = set()
        self._code: tuple[int, int, int] | None = None
        """Positions of a code element to read: the start of its attributes, of its content, and its end."""
        self._in_code = 0
        """Number of tags read in code."""
        self._hidden = HiddenElements(html)

    def pieces(self) -> Iterator[Piece]:
        """Yield the page as pieces of well-formed HTML, to be converted one by one.

        Raises:
            TooLargeError: after the last piece, when the page has more than ``MAX_TAGS``.
        """
        html, size, search, opened = self._html, len(self._html), MARKUP.search, self._open
        out, written_as = opened.out, WRITTEN
        at = began = tag_count = 0
        match: re.Match[str] | None = None
        for _ in range(MAX_TAGS):
            at = self._run(at)
            match = search(html, at)
            upto = match.start() if match else size
            if upto - at > PIECE_CHARACTERS:
                at = began = yield from self._cut_text(at, upto)
            if upto > at:
                self._text(html[at:upto])
            if match is None or tag_count > MAX_TAGS:
                break
            start, inner, _, end = match.groups()
            if end:
                at = match.end()
                if end in written_as:
                    opened.end(end, again=end in EMPHASIS)
                else:
                    self._end(end.lower())
            elif start:
                name, hidden = start if start in written_as else start.lower(), self._hidden.length
                at = self._start(name, match) if inner is None else self._whole(name, inner, match)
                if self._code:
                    at = began = yield from self._cut_code(*self._code)
                began += self._hidden.length - hidden
            else:
                at = after_aside(html, upto)
            if (len(out) > PIECE_TAGS or at - began > PIECE_CHARACTERS) and self._may_cut(at - began):
                tag_count += len(out)
                yield self._piece()
                began = at
        yield self._piece()
        if match or self._hidden.are_too_many:
            raise TooLargeError

    def _may_cut(self, read: int) -> bool:
        """Return whether a large enough piece may end here, after ``read`` characters."""
        opened = self._open
        size = max(len(opened.out) / PIECE_TAGS, read / PIECE_CHARACTERS)
        return size > 3 or WRAPPERS.issuperset(opened.names) or (size > 2 and opened.is_between(outermost=size < 2.5))

    def _piece(self) -> Piece:
        """Return the output since the last piece, and begin the next one."""
        tables = [table for table in self._tables if table is not None]
        return self._open.cut(tables[0] if len(tables) == 1 else None)

    def _cut_text(self, at: int, upto: int) -> Generator[Piece, None, int]:
        """Yield pieces of a long text; return where the last one ended."""
        while upto - at > PIECE_CHARACTERS:
            middle = at + PIECE_CHARACTERS
            space = max(self._html.rfind(" ", at, middle), self._html.rfind("\n", at, middle))
            self._text(self._html[at : (middle := space if space > at else middle)])
            yield self._piece()
            at = middle
        return at

    def _cut_code(self, first: int, at: int, end: int) -> Generator[Piece, None, int]:
        """Write code, in pieces if it is long; return the position to continue at."""
        self._code = None
        language, parts, length = language_of(self._html, first, at), list[str](), 0
        for part, read in self._code_parts(at, end):
            at = read
            parts.append(part)
            length += len(part)
            if length > PIECE_CHARACTERS:
                text = "".join(parts)
                line = text.rfind("\n") + 1 or len(text)
                self._open.out.append(code(text[:line], language))
                yield self._piece()
                parts, length = [text[line:]], len(text) - line
        self._open.out.append(code("".join(parts), language))
        if self._in_code > MAX_TAGS:
            yield self._piece()
            raise TooLargeError
        return max(at, end)

    def _code_parts(self, at: int, end: int) -> Iterator[tuple[str, int]]:
        """Yield the content of code in parts, each with the position read up to."""
        while match := MARKUP.search(self._html, at, end):
            yield from self._slices(at, match.start())
            self._in_code += 1
            if self._in_code > MAX_TAGS:
                return
            name = (match[1] or "").lower()
            if match[1] is None and match[4] is None:
                at = after_aside(self._html, match.start())
            else:
                at = match.end() if match[2] is None else match.start(2)
            if self._hidden.hide(name, match.end(1), at):
                at = self._hidden.end_of(name, at, end, (), self._beyond)
            elif name in UNREAD and (beyond := self._beyond(name, at)):
                at = beyond[1]
            elif name in RAW:
                at = end
            yield "\n" if name == "br" else "", at
        yield from self._slices(at, end)

    def _slices(self, at: int, upto: int) -> Iterator[tuple[str, int]]:
        for first in range(at, upto, PIECE_CHARACTERS):
            last = min(first + PIECE_CHARACTERS, upto)
            yield self._html[first:last], last

    def _text(self, text: str) -> None:
        if self._tables and not text.isspace():
            self._into_cell()
        # A "<" that is not markup here must not be markup for the converter.
        self._open.out.append(text.replace("<", "&lt;") if "<" in text else text)

    def _run(self, at: int) -> int:
        """Read a run of simple text, cells or items, if there is one. Return the position to continue at."""
        opened, names = self._open, self._open.names
        within = names[-1] if names else ""
        if within in _ROWS:
            run = self._cells_at(at, whole_rows=within == "table")
            if run is None:
                return at
        elif within in _LISTS:
            run = ITEMS_RUN.match(self._html, at)
            if run is None or not EMPHASIS.isdisjoint(names):
                return at
            opened.count_items(run[0].count("</li>"))
        elif self._tables or (run := RUN.match(self._html, at)) is None or not EMPHASIS.isdisjoint(opened.names):
            return at
        opened.out.append(run[0])
        return run.end()

    def _cells_at(self, at: int, *, whole_rows: bool) -> re.Match[str] | None:
        """Place the simple cells, or rows of them, at this position, and return their match, or ``None``."""
        table = self._tables[-1] if self._tables else None
        run = (ROWS_RUN if whole_rows else CELLS_RUN).match(self._html, at)
        if table is None or run is None:
            return None
        if whole_rows:
            is_placed = table.take_rows([row.count("</") for row in run[0].split("</tr>")[:-1]])
        else:
            is_placed = table.take_several(run[0].count("</"))
        return run if is_placed else None

    def _whole(self, name: str, text: str, match: re.Match[str]) -> int:
        """Read an element that contains only simple text, at once if possible. Return the position to continue at."""
        opened, element = self._open, WRITTEN.get(name) or _CELLS.get(name)
        first, last = match.end(1), match.start(2)
        if name == "a" and text and "<" not in text and _LINKLESS.isdisjoint(opened.names):
            return self._simple_link(first, last, text, match)
        if (
            element is None
            or len(text) > PIECE_CHARACTERS
            or self._hidden.hide(name, first, last)
            or ("<" in text and (name in EMPHASIS or not EMPHASIS.isdisjoint(opened.names)))
        ):
            return self._start(name, match)
        if self._tables and name in CELLS:
            if last - first > 1 or (table := self._tables[-1]) is None or opened.names[-1] != "tr" or not table.take():
                return self._start(name, match)
            opened.out.append(f"{element.start}{text}{element.end}")
            return match.end()
        if rule := ENDS.get(name):
            opened.end_nearest(*rule)
        if self._tables:
            self._into_cell()
        if name == "li":
            opened.count_items(1)
        if text or not element.droppable:
            doubled = element.droppable and name in opened.names
            opened.out.append(text if doubled else f"{element.start}{text}{element.end}")
        return match.end()

    def _start(self, name: str, match: re.Match[str]) -> int:
        """Read a start tag; return the position to continue at."""
        opened, names = self._open, self._open.names
        first, end = match.end(1), match.end() if match[2] is None else match.start(2)
        is_hidden = self._hidden.hide(name, first, end)
        if name in CELLS and self._row_is_full():
            opened.out.append(" ")  # the content of further cells is joined to the last one
            return self._hidden.end_of(name, end, len(self._html), names, self._beyond) if is_hidden else end
        if rule := ENDS.get(name):
            opened.end_nearest(*rule)
        if is_hidden:
            if name in BLOCKS:
                opened.end_nearest(*ENDS["div"])  # items end paragraphs too
            return self._hidden.end_of(name, end, len(self._html), names, self._beyond)
        if element := WRITTEN.get(name):
            if self._tables:
                self._into_cell()
            if name in EMPHASIS and name in names:
                element = NOTHING
            opened.push(name, element)
        elif name in UNREAD:
            beyond = self._beyond(name, end)
            return beyond[1] if beyond else len(self._html) if name in RAW else end
        elif name in _PARTS:
            self._part(name, first, end)
        elif name in _SPECIAL:
            return self._special(name, first, end)
        elif name in names or name == "button":  # no paragraph ends beyond it
            opened.push(name, NOTHING)
        return end

    def _special(self, name: str, first: int, end: int) -> int:
        """Read a start tag whose attributes matter; return the position to continue at."""
        if name == "base":
            self._links.rebase(attributes(self._html, first, end).get("href", ""))
            return end
        if self._tables:
            self._into_cell()
        if name == "a":
            self._link(first, end)
        elif name == "pre":
            self._preformatted(first, end)
        elif name == "img":
            self._image(attributes(self._html, first, end))
        elif name == "ol":
            start = number_of(self._html, first, end, "start", most=999_999_999)
            self._open.push(name, Element(f'<ol start="{start}">', "</ol>", first=start))
        else:
            self._open.out.append(f"<{name}>")
        return end

    def _end(self, name: str) -> None:
        if name in CELLS and self._row_is_full():
            return
        self._open.end(name, again=name in EMPHASIS)
        if name == "table":
            del self._tables[self._open.names.count("table") :]

    def _part(self, name: str, first: int, end: int) -> None:
        opened, tables = self._open, self._tables
        if name == "table":
            following = _TABLE.search(self._html, end)
            lays_out = following is not None and not following[1]
            if opened.push(name, _BLOCK if lays_out else Element("<table>", "</table>")):
                tables.append(None if lays_out else Columns())
        elif not tables or tables[-1] is None:
            opened.push(name, _BLOCK)
        elif name == "tr":
            self._row(tables[-1])
        elif name in CELLS:
            self._cell(tables[-1], name, first, end)
        elif name == "caption":
            opened.push(name, Element("<caption>", "</caption>"))

    def _row(self, table: Columns) -> None:
        if self._open.push("tr", _ROW):
            table.next_row()

    def _cell(self, table: Columns, name: str, first: int, last: int) -> None:
        if self._open.names[-1] == "table":
            self._row(table)
        wide = number_of(self._html, first, last, "colspan", most=1_000)
        high = number_of(self._html, first, last, "rowspan", most=1_000)
        before, after = table.place(wide, high)
        self._open.out += [EMPTY] * before + [""] * after  # the cells after it are written later, but count already
        self._open.push(name, Element(f"<{name}>", f"</{name}>" + EMPTY * after) if after else _CELLS[name])

    def _row_is_full(self) -> bool:
        return bool(self._tables) and (table := self._tables[-1]) is not None and table.full

    def _into_cell(self) -> None:
        """Ensure that content of a table is in a cell."""
        if (table := self._tables[-1]) is not None and self._open.names[-1] in _ROWS:
            self._cell(table, "td", 0, 0)

    def _simple_link(self, first: int, last: int, text: str, match: re.Match[str]) -> int:
        """Read a link that contains only text. Return the position to continue at."""
        if len(text) > PIECE_CHARACTERS or self._hidden.hide("a", first, last):
            return self._start("a", match)
        if self._tables:
            self._into_cell()
        address = self._address(first, last)
        self._open.out.append(f'<a href="{quoted(address)}">{text}</a>' if address else text)
        return match.end()

    def _address(self, first: int, end: int) -> str | None:
        href = href_of(self._html, first, end)
        return None if href is None else self._links.link(href)

    def _link(self, first: int, end: int) -> None:
        address = None if "code" in self._open.names else self._address(first, end)
        element = Element(f'<a href="{quoted(address)}">', "</a>", droppable=True) if address else NOTHING
        self._open.push("a", element)

    def _image(self, attrs: dict[str, str]) -> None:
        address = self._links.resource(attrs.get("src", ""))
        text = quoted(" ".join(attrs.get("alt", "").split()))
        self._open.out.append(f'<img src="{quoted(address)}" alt="{text}">' if address else text)

    def _preformatted(self, first: int, end: int) -> None:
        if beyond := self._beyond("pre", end):
            self._code = first, end, beyond[0]
        else:
            self._open.push("pre", _BLOCK)

    def _beyond(self, name: str, at: int) -> tuple[int, int] | None:
        """Return the start and the end of an element's end tag, without parsing its content, or ``None``."""
        if name in self._endless:
            return None
        ending = self._endings.get(name)
        if ending is None:
            ending = self._endings[name] = re.compile(f"</{name}(?=[\\s/>])[^>]*+(?:>|\\Z)", re.IGNORECASE)
        if match := ending.search(self._html, at):
            return match.span()
        self._endless.add(name)
        return None
