"""The open elements of a page, and the output so far."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal, NamedTuple

MAX_COLUMNS: Final = 100
"""Maximum number of columns; further cells of a row are joined to the last one."""

MAX_ROWS_SPANNED: Final = 1_000
EMPTY: Final = "<td></td>"

MAX_DEPTH: Final = 64
"""Maximum depth of nested elements; the markup of deeper ones is left out, and their text stays."""

BARRIERS: Final = frozenset({"table", "td", "th", "caption"})
"""An end tag inside one of these does not close elements outside of it."""

_TABLE: Final = frozenset({"table"})
_TABLE_PARTS: Final = BARRIERS | {"tr"}
LISTS: Final = frozenset({"ul", "ol", "menu", "dir"})
_PARTED: Final = LISTS | _TABLE
"""Elements in which a piece may end, between two items or rows."""
_ITEMS: Final = frozenset({"li", "tr"})


class Columns:
    """The position of the next cell of a table."""

    __slots__ = ("_covered", "at", "rows")

    def __init__(self) -> None:
        self.at = 0
        """Number of occupied columns in the row."""
        self.rows = 0
        self._covered: list[int] = []
        """For each column, how many further rows a cell above it spans."""

    @property
    def full(self) -> bool:
        """Whether the row has no room for another cell."""
        return self.at >= MAX_COLUMNS

    def empty_row(self) -> str:
        """Return an empty row, as wide as the table so far."""
        return f"<tr>{EMPTY * max(len(self._covered), 1)}</tr>"

    def next_row(self) -> None:
        """Begin a row."""
        self.rows += 1
        covered = self._covered
        for column in range(self.at, len(covered)):
            covered[column] -= covered[column] > 0
        self.at = 0

    def take(self) -> bool:
        """Place a plain cell in the simple, common case. Return whether it was placed."""
        at = self.at
        if at >= MAX_COLUMNS - 1 or (at < len(self._covered) and self._covered[at]):
            return False
        if at == len(self._covered):
            self._covered.append(0)
        self.at = at + 1
        return True

    def take_several(self, count: int) -> bool:
        """Place several plain cells in the simple case. Return whether they were placed."""
        covered, upto = self._covered, self.at + count
        if upto >= MAX_COLUMNS or any(covered[self.at : upto]):
            return False
        covered += [0] * (upto - len(covered))
        self.at = upto
        return True

    def take_rows(self, counts: Sequence[int]) -> bool:
        """Place rows with these numbers of plain cells, if no cell spans into them. Return whether they were placed."""
        covered, widest = self._covered, max(counts)
        if widest >= MAX_COLUMNS or any(covered):
            return False
        covered += [0] * (widest - len(covered))
        self.rows += len(counts)
        self.at = counts[-1]
        return True

    def place(self, wide: int, high: int) -> tuple[int, int]:
        """Place a cell. Return the number of empty cells before it (spanned from above) and after it."""
        covered, began = self._covered, self.at
        at = began
        while at < len(covered) and covered[at]:
            covered[at] -= 1
            at += 1
        wide = max(min(wide, MAX_COLUMNS - at), 1)
        below = min(high, MAX_ROWS_SPANNED) - 1
        covered[at : at + wide] = [below] * wide
        self.at = at + wide
        return at - began, wide - 1


class Element(NamedTuple):
    """The output for an element."""

    start: str
    end: str
    droppable: bool = False
    """Whether it is left out if empty."""
    first: int = 0
    """The number of the first item of an ordered list."""


NOTHING: Final = Element("", "")


class Piece(NamedTuple):
    """A well-formed part of the page."""

    html: str
    within: Literal["table", "list"] | None
    """The element that the previous piece ended in. A table then begins with an empty row, removed after conversion."""


class Open:
    """A stack of elements; popping one writes its end tag."""

    __slots__ = ("_elements", "_numbered", "_over", "_within", "names", "out")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.out: list[str] = []
        """The output in order: text and tags."""
        self._elements: list[Element] = []
        self._numbered: list[int] = []
        """Number of items so far in each open ordered list."""
        self._over = 0
        self._within: Literal["table", "list"] | None = None

    def push(self, name: str, element: Element) -> bool:
        """Open an element; return whether the maximum depth allowed it."""
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
        """Count items that were written here, if they belong to an ordered list."""
        if self._numbered and self.names[-1:] == ["ol"]:
            self._numbered[-1] += count

    def end(self, name: str, *, again: bool) -> None:
        """Close the nearest open element with this name, and those in it; with ``again``, reopen the latter."""
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
        stops = BARRIERS if name not in _TABLE_PARTS else _TABLE
        while names[at] != name:
            if names[at] in stops:
                return
            at -= 1
        inner = list(zip(names[at + 1 :], self._elements[at + 1 :], strict=True)) if again else ()
        self._pop(at)
        for entry in inner:
            self.push(*entry)

    def end_nearest(self, ended: AbstractSet[str], barriers: AbstractSet[str]) -> None:
        """Close the nearest open element of ``ended``, unless one of the barriers is nearer."""
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
        """Return whether this is between two items or rows; with ``outermost``, of an unnested list or table."""
        if not self.names:
            return False
        is_fresh = self.names[-1] in _ITEMS and self.out[-1:] == [self._elements[-1].start]
        if not is_fresh and self.names[-1] not in _PARTED:
            return False
        around = self._elements[:-1] if is_fresh else self._elements
        return not (outermost and any(element.start in ("<li>", "<tr>") for element in around))

    def cut(self, table: Columns | None = None) -> Piece:
        """Return the output with all open elements closed, and reopen them for the next piece.

        Args:
            table: the columns of the open table, if it is a data table.
        """
        elements, names, out = self._elements, self.names, self.out
        open_count = len(elements)
        while open_count and out and out[-1] is elements[open_count - 1].start:  # just opened: left to the next piece
            out.pop()
            open_count -= 1
        piece = Piece("".join([*out, *(element.end for element in reversed(elements[:open_count]))]), self._within)
        if table is not None and table.rows > names[open_count:].count("tr"):
            self._within = "table"
        else:
            table = None
            is_list = names[open_count] == "li" if open_count < len(names) else not LISTS.isdisjoint(names[-1:])
            self._within = "list" if is_list else None
        out[:] = self._starts(table)
        return piece

    def _starts(self, table: Columns | None) -> list[str]:
        """Return the start tags of the reopened elements: lists at their next number, a table in its next column."""
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
