"""Elements that are hidden by their own attributes: which they are, and where they end (spec 5, P28).

Hidden elements are not converted, so their content is only scanned for tags. If the end tag of one is missing, or its
content has end tags of other elements, it ends where a browser would end it; otherwise hidden content could be shown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from capset_tools.web_fetch.markup import (
    BLOCKS,
    CELLS,
    HEADINGS,
    MARKUP,
    RAW,
    UNREAD,
    after_aside,
    repeated,
    resolved,
)
from capset_tools.web_fetch.stack import BARRIERS

MAX_HIDDEN_TAGS: Final = 300_000
"""Maximum number of tags read in hidden elements."""
_NEVER: Final = UNREAD | {"base", "head"}
"""Elements that are not treated as hidden: they are left out anyway, or matter although they are invisible."""
_VOID: Final = frozenset({
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input", "keygen", "link",
    "meta", "param", "source", "track", "wbr",
})  # fmt: skip
"""Elements without content and without an end tag."""

_SHORT: Final = 16_000
_VALUE: Final = repeated(r"""\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]++)""", "?")
_HIDING: Final = re.compile(
    repeated(rf"[\s/=]*+(?!(?:hidden|style)(?![^\s/>=]))[^\s/>=]++{_VALUE}", "*")
    + r"[\s/=]*+(hidden|style)(?![^\s/>=])"
    + repeated(r"""\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]++))""", "?"),
    re.ASCII | re.IGNORECASE,
)
"""The attributes of a tag, up to and including the first that may hide its element, with that one's value."""
_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.ASCII | re.DOTALL | re.IGNORECASE)
_UNDISPLAYED: Final = re.compile(r"(?<![\w-])display\s*+:\s*+none(?![\w-])", re.ASCII | re.IGNORECASE)

_FORMATTING: Final = frozenset({
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
})  # fmt: skip
"""Elements that are reopened, with their attributes, if the end of another one closes them."""
_RUBY: Final = frozenset({"rb", "rp", "rt", "rtc"})
_ENDING_P: Final = BLOCKS - {"html", "body", "caption", "legend", "menuitem", "noscript", "optgroup", "table"}
_SPECIAL: Final = BLOCKS - {"optgroup", "menuitem"} | CELLS | {
    "button", "colgroup", "listing", "marquee", "tbody", "tfoot", "thead", "tr", "xmp",
}  # fmt: skip
"""Elements beyond which the end tag of an ordinary element, such as ``<span>``, has no effect."""
_TABLE: Final = frozenset({"table"})
_CELLS: Final = CELLS | {"caption"}
_SCOPE: Final = BARRIERS | {"marquee"}
_SCOPE_OF_P: Final = _SCOPE | {"button"}
_SCOPE_OF_LI: Final = _SCOPE | {"ul", "ol"}
_RANKS: Final = {
    **dict.fromkeys(("thead", "tbody", "tfoot", "caption", "colgroup"), 0),
    "tr": 1,
    **dict.fromkeys(CELLS, 2),
}
"""The parts of a table: each ends open parts of its own rank and of higher ones."""
_DOCTYPE: Final = re.compile(r"\s*+<!doctype html\s*+>", re.ASCII | re.IGNORECASE)
"""In a page that begins with this, tables end paragraphs."""


def is_hidden(html: str, first: int, last: int) -> bool:
    """Return whether the attributes of a tag hide its element: ``hidden``, or ``display: none`` in its ``style``."""
    if last - first < _SHORT:  # a quick check that usually decides; not for long tags, whose copies take memory
        tag = html[first:last].lower()
        if "hidden" not in tag and not ("style" in tag and ("none" in tag or "&" in tag or "\\" in tag)):
            return False
    styled = False
    while match := _HIDING.match(html, first, last):
        name, double, single, bare = match.groups("")
        if name.lower() == "hidden" or (not styled and _hides(double or single or bare)):
            return True
        styled, first = True, match.end()  # of several attributes with the same name, the first counts
    return False


def _hides(style: str) -> bool:
    text = _ESCAPE.sub(_unescaped, _COMMENT.sub(" ", resolved(style)))
    return _UNDISPLAYED.search(text) is not None


def _unescaped(match: re.Match[str]) -> str:
    number = int(match[1] or "0", 16)
    return match[2] or (chr(number) if 0 < number <= 0x10FFFF else "\ufffd")


Beyond = Callable[[str, int], tuple[int, int] | None]


class HiddenElements:
    """Finds the ends of the hidden elements of a page."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._ending_p = _ENDING_P | _TABLE if _DOCTYPE.match(html) else _ENDING_P
        self._read = 0
        self.length = 0
        """Number of characters in hidden elements so far."""

    @property
    def are_too_many(self) -> bool:
        """Whether there were more tags than ``MAX_HIDDEN_TAGS``; the page then ends there."""
        return self._read > MAX_HIDDEN_TAGS

    def hide(self, name: str, first: int, last: int) -> bool:
        """Return whether a start tag with this name and these attributes begins a hidden element."""
        return last - first > 1 and name not in _NEVER and is_hidden(self._html, first, last)

    def end_of(self, name: str, at: int, upto: int, around: Sequence[str], beyond: Beyond) -> int:
        """Return the position after an element, or before the tag that ends it.

        Args:
            name: the name of the element.
            at: the end of its start tag.
            upto: the end of the page, or of the code that contains it.
            around: the open elements around it, the innermost last.
            beyond: finds the end tag of an element, if any; not stored, to avoid a reference cycle with the page.
        """
        end = at if name in _VOID else self._end(name, at, upto, around, beyond)
        self.length += end - at
        return end

    def _end(self, name: str, at: int, upto: int, around: Sequence[str], beyond: Beyond) -> int:
        html, inside = self._html, _OpenElements(around, self._ending_p)
        inside.push(name, hides=True)
        while match := MARKUP.search(html, at, upto):
            self._read += 1
            if self._read > MAX_HIDDEN_TAGS:
                return len(html)
            start, text, _, end = match.groups()
            at = match.end()
            if end:
                if inside.end(end.lower()):
                    return match.start()
                if not inside.names:
                    return at
                continue
            if not start:
                at = after_aside(html, match.start())
                continue
            start, last = start.lower(), match.end() if text is None else match.start(2)
            inside.start(start)
            if not inside.names:
                return match.start()
            if start in UNREAD:
                end_tag = beyond(start, last)
                at = end_tag[1] if end_tag else upto if start in RAW else last
            elif text is None and start not in _VOID:
                inside.push(start, hides=self.hide(start, match.end(1), last))
        return upto


class _OpenElements:
    """The open elements within a hidden one, which is the outermost. If none is left, the hidden one has ended.

    These are the rules of browsers (html.spec.whatwg.org, tree construction) that end elements.
    """

    def __init__(self, around: Sequence[str], ending_p: AbstractSet[str]) -> None:
        self.names: list[str] = []
        self._around = around
        self._ending_p = ending_p
        self._hiding: list[bool] = []
        self._going_on = 0
        """Number of hidden ones that are reopened if others end."""
        self._special: list[int] = []
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        """Positions by name, so that a search takes no longer if more elements are open."""

    def push(self, name: str, *, hides: bool) -> None:
        if name in _RANKS and not self._is_in_table and self.names:
            return
        self._places[name].append(len(self.names))
        if name in _SPECIAL:
            self._special.append(len(self.names))
        self.names.append(name)
        self._hiding.append(hides)
        self._going_on += hides and name in _FORMATTING

    def end(self, name: str) -> bool:
        """Process an end tag. Return whether it ends an element around the hidden one, and the hidden one with it."""
        if name in _RANKS and not self._is_in_table and name != self.names[0]:
            return False
        stops = _stops_of(name)
        nearest, stop = self._last((name,)), self._last_special() if stops is _SPECIAL else self._last(stops)
        if nearest >= 0:
            if nearest >= stop:
                self._close(nearest, keeps=name in _FORMATTING)
            return False
        if stop >= 0 or not self._reaches({name}, stops):
            return False
        if stops is _TABLE and self._reaches(_CELLS, _TABLE):
            return True  # the end of a cell ends everything in it
        return self._may_be_left(blocks=name not in _FORMATTING)

    def start(self, name: str) -> None:
        """Process a start tag, which may end other elements; ``push`` opens the new one."""
        top = self.names[-1]
        if name in _RANKS:
            self._start_part(_RANKS[name])
        elif (name in HEADINGS and top in HEADINGS) or (name in _RUBY and top in _RUBY):
            self._close(len(self.names) - 1)
        elif name == "a":
            self._end_nearest({"a"}, _SCOPE, keeps=True)
        elif name in _ITEMS:
            self._end_nearest(_ITEMS[name], _SPECIAL - {"address", "div", "p"})
        if self.names and name in self._ending_p:
            self._end_nearest({"p"}, _SCOPE_OF_P)

    def _start_part(self, rank: int) -> None:
        """Process the start tag of a part of a table, which is ignored outside a table."""
        table = self._last(_TABLE)
        ended = [name for name, other in _RANKS.items() if other >= rank]
        places = [places[-1] for name in ended if (places := self._places[name]) and places[-1] > table]
        if self._is_in_table and (places or (table < 0 and self.names[0] not in _RANKS)):
            self._pop(min(places, default=0))

    def _end_nearest(self, ended: AbstractSet[str], stops: AbstractSet[str], *, keeps: bool = False) -> None:
        """End the nearest open element of ``ended``, inside or around, unless one of ``stops`` is nearer."""
        nearest, stop = self._last(ended), self._last(stops - ended)
        if nearest > stop:
            self._close(nearest, keeps=keeps)
        elif nearest < 0 and stop < 0 and self._may_be_left(blocks=not keeps) and self._reaches(ended, stops):
            self._pop(0)

    @property
    def _is_in_table(self) -> bool:
        return "table" in self._around or bool(self._places["table"])

    def _may_be_left(self, *, blocks: bool) -> bool:
        """Return whether the end of an element around this one leaves nothing hidden open."""
        return not self._going_on and (blocks or not self._special)

    def _close(self, place: int, *, keeps: bool = False) -> None:
        """End an element and those in it. Hidden ones that are reopened replace the outermost.

        Args:
            place: the position of the element.
            keeps: whether the blocks in it stay open.
        """
        if place > 0:
            if not keeps or self._last_special() < place:
                self._pop(place)
            return
        block = len(self.names)
        if self.names[0] in _RANKS and not self._is_in_table:
            block = 0  # browsers ignore its tags
        elif keeps:
            block = next((position for position in self._special[:2] if position > 0), block)
        reopened = [
            name
            for at, (name, hides) in enumerate(zip(self.names, self._hiding, strict=True))
            if at and hides and (name in _FORMATTING or at >= block)
        ]
        self._pop(0)
        for name in reopened:
            self.push(name, hides=True)

    def _last_special(self) -> int:
        return self._special[-1] if self._special else -1

    def _last(self, names: Iterable[str]) -> int:
        return max((places[-1] for name in names if (places := self._places.get(name))), default=-1)

    def _pop(self, place: int) -> None:
        while len(self.names) > place:
            name = self.names.pop()
            self._places[name].pop()
            self._going_on -= self._hiding.pop() and name in _FORMATTING
        while self._special and self._special[-1] >= place:
            self._special.pop()

    def _reaches(self, names: AbstractSet[str], stops: Iterable[str]) -> bool:
        """Return whether one of ``names`` is open around the hidden element, and none of ``stops`` is nearer."""
        for name in reversed(self._around):
            if name in names:
                return True
            if name in stops:
                return False
        return False


_ITEMS: Final[Mapping[str, AbstractSet[str]]] = {
    "li": frozenset({"li"}),
    **dict.fromkeys(("dt", "dd"), frozenset({"dt", "dd"})),
}


def _stops_of(name: str) -> AbstractSet[str]:
    """Return the elements beyond which an end tag has no effect."""
    if name in _RANKS or name == "table":
        return _TABLE
    if name == "p":
        return _SCOPE_OF_P
    if name == "li":
        return _SCOPE_OF_LI
    return _SCOPE if name in _SPECIAL or name in _FORMATTING else _SPECIAL
