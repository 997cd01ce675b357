"""Elements that are hidden by their own attributes: which they are, and where they end (spec 5, P28).

Nothing of them is converted, so what stands in them is read for its tags only. Where their end tag is missing, or what
is hidden has end tags of other elements, they end where a browser would end them: otherwise it would be shown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from html import unescape
from typing import Final

from capset.builtin.web_fetch.markup import (
    BLOCKS,
    CELLS,
    EMPHASIS,
    ENDS,
    HEADINGS,
    MARKUP,
    RAW,
    UNREAD,
    after_aside,
)
from capset.builtin.web_fetch.stack import BARRIERS

MAX_HIDDEN_TAGS: Final = 300_000
"""Maximum number of tags read in hidden elements."""
_NEVER: Final = UNREAD | {"base", "head"}
"""Elements that are left out anyway, or matter although nobody sees them."""
_VOID: Final = frozenset({
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input", "keygen", "link",
    "meta", "param", "source", "track", "wbr",
})  # fmt: skip
"""Elements without content and end tag."""

_SHORT: Final = 16_000
_HIDING: Final = re.compile(
    r"""(?:[\s/=]*+(?!(?:hidden|style)(?![^\s/>=]))[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]++))?+)*+"""
    r"""[\s/=]*+(hidden|style)(?![^\s/>=])(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]++)))?+""",
    re.ASCII | re.IGNORECASE,
)
"""The attributes of a tag up to the first that may hide its element, with the value of that."""
_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.ASCII | re.DOTALL | re.IGNORECASE)
_UNDISPLAYED: Final = re.compile(r"(?<![\w-])display\s*+:\s*+none(?![\w-])", re.ASCII | re.IGNORECASE)

_SCOPE: Final = CELLS | {"table", "caption", "button", "marquee"}
"""Elements beyond which no ``<p>`` is ended from within."""
_TABLE: Final = frozenset({"table"})
_LIST_STOPS: Final = BLOCKS - {"address", "div", "p", "li", "dt", "dd"}
_RANKS: Final = {
    **dict.fromkeys(("thead", "tbody", "tfoot", "caption", "colgroup"), 0),
    "tr": 1,
    **dict.fromkeys(CELLS, 2),
}
"""The parts of a table: each ends those of its own rank and of higher ones."""


def is_hidden(html: str, first: int, last: int) -> bool:
    """Return whether the attributes of a tag hide its element: ``hidden``, or ``display: none`` in its ``style``."""
    if last - first < _SHORT:  # usually decided by this; slower for long ones, whose copies take memory
        tag = html[first:last].lower()
        if "hidden" not in tag and not ("style" in tag and ("none" in tag or "&" in tag or "\\" in tag)):
            return False
    styled = False
    while match := _HIDING.match(html, first, last):
        name, double, single, bare = match.groups("")
        if name.lower() == "hidden" or (not styled and _hides(double or single or bare)):
            return True
        styled, first = True, match.end()  # of two attributes with one name, the first counts
    return False


def _hides(style: str) -> bool:
    text = _ESCAPE.sub(_unescaped, _COMMENT.sub(" ", unescape(style)))
    return _UNDISPLAYED.search(text) is not None


def _unescaped(match: re.Match[str]) -> str:
    number = int(match[1] or "0", 16)
    return match[2] or (chr(number) if 0 < number <= 0x10FFFF else "\ufffd")


class HiddenElements:
    """Finds the ends of the hidden elements of a page; ``beyond`` returns an element's end tag, or ``None``."""

    def __init__(self, html: str, beyond: Callable[[str, int], tuple[int, int] | None]) -> None:
        self._html = html
        self._beyond = beyond
        self._read = 0
        self.length = 0
        """Number of characters of the hidden elements so far."""

    @property
    def are_too_many(self) -> bool:
        """Whether there were more tags than are read: then the page has ended with them."""
        return self._read > MAX_HIDDEN_TAGS

    def hide(self, name: str, first: int, last: int) -> bool:
        """Return whether the start tag of a name, with these attributes, begins a hidden element."""
        return last - first > 1 and name not in _NEVER and is_hidden(self._html, first, last)

    def end_of(self, name: str, at: int, upto: int, around: Sequence[str]) -> int:
        """Return the position after an element, or before the tag that ends it.

        Args:
            name: that of the element.
            at: the end of its start tag.
            upto: where the page, or the code that it stands in, ends.
            around: the open elements that it is in, the innermost last.
        """
        end = at if name in _VOID else self._end(name, at, upto, around)
        self.length += end - at
        return end

    def _end(self, name: str, at: int, upto: int, around: Sequence[str]) -> int:
        inside, html = _OpenElements(name), self._html
        while match := MARKUP.search(html, at, upto):
            self._read += 1
            if self._read > MAX_HIDDEN_TAGS:
                return len(html)
            start, text, _, end = match.groups()
            at = match.end()
            if end:
                if inside.end(end.lower(), around):
                    return at if not inside.names else match.start()
            elif not start:
                at = after_aside(html, match.start())
            elif inside.is_ended_by(start := start.lower(), around):
                return match.start()
            elif start in UNREAD:
                at = match.end() if text is None else match.start(2)
                found = self._beyond(start, at)
                at = found[1] if found else upto if start in RAW else at
            elif text is None and start not in _VOID:
                inside.push(start)
        return upto


class _OpenElements:
    """The open elements of a hidden one, with itself the outermost."""

    def __init__(self, name: str) -> None:
        self.names: list[str] = []
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        """Of each name, so that no search takes longer where there are more."""
        self.push(name)

    def push(self, name: str) -> None:
        self._places[name].append(len(self.names))
        self.names.append(name)

    def end(self, name: str, around: Sequence[str]) -> bool:
        """Read an end tag; return whether it ends the hidden element, as its own, or as that of one around it."""
        stops = _TABLE if name in _TABLE or name in _RANKS else BARRIERS
        found, stop = self._last((name,)), self._last(stops)
        if found >= 0:
            if found >= stop:
                self._pop(found)
            return not self.names
        return stop < 0 and name not in EMPHASIS and _reaches(around, {name}, stops)

    def is_ended_by(self, name: str, around: Sequence[str]) -> bool:
        """Read the start tag of an element that ends others; return whether it ends the hidden one."""
        if name in _RANKS:
            return self._is_ended_by_part(_RANKS[name], around)
        if name not in ENDS:
            return False
        ended, stops = ENDS[name]
        if name in HEADINGS:
            ended = {"p"}
            if self.names[-1] in HEADINGS:
                self._pop(len(self.names) - 1)
        if "p" in ended:
            stops |= _SCOPE
        elif name != "a":
            stops |= _LIST_STOPS
        found, stop = self._last(ended), self._last(stops)
        if self.names and found >= 0 and found >= stop:
            self._pop(found)
        return not self.names or (found < 0 and stop < 0 and _reaches(around, ended, stops))

    def _is_ended_by_part(self, rank: int, around: Sequence[str]) -> bool:
        """Read the start tag of a part of a table."""
        ended = [name for name, other in _RANKS.items() if other >= rank]
        table = self._last(("table",))
        places = [places[-1] for name in ended if (places := self._places[name]) and places[-1] > table]
        if places:
            self._pop(min(places))
        elif table < 0 and self.names[0] not in _RANKS:
            return "table" in around
        return not self.names

    def _last(self, names: Iterable[str]) -> int:
        return max((places[-1] for name in names if (places := self._places.get(name))), default=-1)

    def _pop(self, place: int) -> None:
        while len(self.names) > place:
            self._places[self.names.pop()].pop()


def _reaches(around: Sequence[str], names: AbstractSet[str], stops: AbstractSet[str]) -> bool:
    """Return whether one of some elements is open and, from the innermost on, none of the stops is before it."""
    for one in reversed(around):
        if one in names:
            return True
        if one in stops:
            return False
    return False
