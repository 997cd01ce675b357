"""The columns of a table, with spanning cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

MAX_COLUMNS: Final = 100
"""Further cells of a row are joined to the last one."""

MAX_ROWS_SPANNED: Final = 1_000
EMPTY: Final = "<td></td>"


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
        """Place a plain cell in the simple, common case; return whether it applied."""
        at = self.at
        if at >= MAX_COLUMNS - 1 or (at < len(self._covered) and self._covered[at]):
            return False
        if at == len(self._covered):
            self._covered.append(0)
        self.at = at + 1
        return True

    def take_several(self, count: int) -> bool:
        """Place several plain cells in the simple case; return whether it applied."""
        covered, upto = self._covered, self.at + count
        if upto >= MAX_COLUMNS or any(covered[self.at : upto]):
            return False
        covered += [0] * (upto - len(covered))
        self.at = upto
        return True

    def take_rows(self, counts: Sequence[int]) -> bool:
        """Place rows of plain cells, given their counts, if no cell spans into them; return whether it applied."""
        covered, most = self._covered, max(counts)
        if most >= MAX_COLUMNS or any(covered):
            return False
        covered += [0] * (most - len(covered))
        self.rows += len(counts)
        self.at = counts[-1]
        return True

    def place(self, wide: int, high: int) -> tuple[int, int]:
        """Place a cell: return the number of empty cells before it, spanned from above, and after it."""
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
