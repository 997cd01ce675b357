"""The columns of a table, with what cells span."""

from __future__ import annotations

from typing import Final

MAX_COLUMNS: Final = 100
"""What stands in further cells of a row joins the last one."""

MAX_ROWS_SPANNED: Final = 1_000


class Columns:
    """Where the next cell of a table goes."""

    __slots__ = ("_at", "_covered")

    def __init__(self) -> None:
        self._at = 0
        self._covered: list[int] = []
        """For each column, how many rows to come a cell above it still spans."""

    @property
    def full(self) -> bool:
        """Whether the row has no room for another cell."""
        return self._at >= MAX_COLUMNS

    def next_row(self) -> None:
        """Begin a row."""
        covered = self._covered
        for column in range(self._at, len(covered)):
            covered[column] -= covered[column] > 0
        self._at = 0

    def take(self) -> bool:
        """Place a plain cell, if that is as simple as it mostly is; return whether it was."""
        at = self._at
        if at >= MAX_COLUMNS - 1 or (at < len(self._covered) and self._covered[at]):
            return False
        if at == len(self._covered):
            self._covered.append(0)
        self._at = at + 1
        return True

    def place(self, wide: int, high: int) -> tuple[int, int]:
        """Place a cell: return how many empty ones come before it, spanned from above, and how many after it."""
        covered, began = self._covered, self._at
        at = began
        while at < len(covered) and covered[at]:
            covered[at] -= 1
            at += 1
        wide = max(min(wide, MAX_COLUMNS - at), 1)
        below = min(high, MAX_ROWS_SPANNED) - 1
        covered[at : at + wide] = [below] * wide
        self._at = at + wide
        return at - began, wide - 1
