"""The elements of a page that are open, and what is written of it so far."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final, Literal, NamedTuple

from capset.builtin.web_fetch.tables import EMPTY, Columns

MAX_DEPTH: Final = 64
"""How many elements may be open within each other; the markup of deeper ones is left out, and their text stays."""

_BARRIERS: Final = frozenset({"table", "td", "th", "caption"})
"""No end of what is open outside of them is taken for one inside."""

_TABLE: Final = frozenset({"table"})
_TABLE_PARTS: Final = _BARRIERS | {"tr"}
LISTS: Final = frozenset({"ul", "ol", "menu", "dir"})
_PARTED: Final = LISTS | _TABLE
"""Between the items of a list, and the rows of a table, a piece may end."""
_ITEMS: Final = frozenset({"li", "tr"})


class Element(NamedTuple):
    """What is written for an element."""

    start: str
    end: str
    droppable: bool = False
    """Whether one with nothing in it is left out."""
    first: int = 0
    """Of an ordered list, the number of its first item."""


NOTHING: Final = Element("", "")


class Piece(NamedTuple):
    """A part of the page, well-formed."""

    html: str
    within: Literal["table", "list"] | None
    """What the piece before it ended within. A table begins with an empty row then, to be left out once converted."""


class Open:
    """A stack of elements; whatever is taken off it is ended in what is written."""

    __slots__ = ("_elements", "_numbered", "_over", "_within", "names", "out")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.out: list[str] = []
        """What is written, in order: text and tags."""
        self._elements: list[Element] = []
        self._numbered: list[int] = []
        """How many items each open ordered list has so far."""
        self._over = 0
        self._within: Literal["table", "list"] | None = None

    def push(self, name: str, element: Element) -> bool:
        """Begin an element; return whether there is room for one more."""
        if len(self.names) >= MAX_DEPTH:
            self._over += 1
            return False
        if element.first:
            self._numbered.append(0)
        elif element.start == "<li>":
            self.count_items(1)
        self.names.append(name)
        self._elements.append(element)
        self.out.append(element.start)
        return True

    def count_items(self, count: int) -> None:
        """Count items that are written here, where they belong to an ordered list."""
        if self._numbered and self.names[-1:] == ["ol"]:
            self._numbered[-1] += count

    def end(self, name: str, *, again: bool) -> None:
        """End the nearest element of a name, if one is open here, and those in it; with ``again`` those begin anew."""
        names = self.names
        if self._over:
            self._over -= 1
        elif names and names[-1] == name:
            names.pop()
            element = self._elements.pop()
            if element.first:
                self._numbered.pop()
            if element.droppable and self.out[-1] is element.start:
                self.out.pop()
            else:
                self.out.append(element.end)
        elif name in names:
            self._end_outer(name, again=again)

    def _end_outer(self, name: str, *, again: bool) -> None:
        names = self.names
        at = len(names) - 1
        stops = _BARRIERS if name not in _TABLE_PARTS else _TABLE
        while names[at] != name:
            if names[at] in stops:
                return
            at -= 1
        inner = list(zip(names[at + 1 :], self._elements[at + 1 :], strict=True)) if again else ()
        self._pop(at)
        for one in inner:
            self.push(*one)

    def end_nearest(self, ended: AbstractSet[str], barriers: AbstractSet[str]) -> None:
        """End the nearest open element out of some, unless one of the barriers is nearer."""
        names = self.names
        if ended.isdisjoint(names):
            return
        for at in range(len(names) - 1, -1, -1):
            name = names[at]
            if name in ended:
                self._pop(at)
                return
            if name in barriers:
                return

    def is_between(self, *, outermost: bool) -> bool:
        """Return whether this is between two items of a list, or two rows of a table, which may lie within others."""
        if not self.names:
            return False
        is_fresh = self.names[-1] in _ITEMS and self.out[-1:] == [self._elements[-1].start]
        if not is_fresh and self.names[-1] not in _PARTED:
            return False
        around = self._elements[:-1] if is_fresh else self._elements
        return not (outermost and any(element.start in ("<li>", "<tr>") for element in around))

    def cut(self, table: Columns | None = None) -> Piece:
        """Return what is written, with what is open ended; and begin that anew, so that it goes on where it was.

        Args:
            table: the columns of the open table, if there is one that is read as a table.
        """
        elements, names, out = self._elements, self.names, self.out
        kept = len(elements)
        while kept and out and out[-1] is elements[kept - 1].start:  # what has only just begun is left to the next
            out.pop()
            kept -= 1
        piece = Piece("".join([*out, *(element.end for element in reversed(elements[:kept]))]), self._within)
        if table is not None and table.rows > names[kept:].count("tr"):
            self._within = "table"
        else:
            table = None
            is_list = names[kept] == "li" if kept < len(names) else not LISTS.isdisjoint(names[-1:])
            self._within = "list" if is_list else None
        out[:] = self._starts(table)
        return piece

    def _starts(self, table: Columns | None) -> list[str]:
        """Return how what is open begins anew: lists at their next number, a table in its next column."""
        elements, starts, numbered = self._elements, list[str](), iter(self._numbered)
        for element, inner in zip(elements, [*elements, NOTHING][1:], strict=True):
            start = element.start
            if element.first:
                start = f'<ol start="{element.first + next(numbered) - (inner.start == "<li>")}">'
            elif table and start == "<table>":
                start += table.empty_row()
            elif table and start == "<tr>":
                start += EMPTY * (table.at - (1 + inner.end.count(EMPTY) if inner is not NOTHING else 0))
            starts.append(start)
        return starts

    def _pop(self, at: int) -> None:
        while len(self.names) > at:
            self.end(self.names[-1], again=False)
