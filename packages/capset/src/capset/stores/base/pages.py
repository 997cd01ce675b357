"""Paginated queries, and their pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from typing_extensions import TypeVar

Row_co = TypeVar("Row_co", covariant=True)
Cursor_co = TypeVar("Cursor_co", covariant=True, default=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(Generic[Cursor_co]):
    """The pagination of a query for a list, which is newest first unless the query says otherwise.

    ``limit`` is 1–1,000. ``before`` is the cursor: the id or the number of the last row of the previous page.
    """

    limit: int = 50
    before: Cursor_co | None = None
    max_bytes: int | None = None
    """A page ends before the row with which it would exceed about this size, but has at least one row."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` unless ``limit`` is 1–1,000."""
        check_limit(self.limit)


def check_limit(limit: int) -> None:
    """Raise ``ValueError`` unless ``limit`` is 1–1,000."""
    if not 1 <= limit <= 1000:
        raise ValueError(f"the limit of a query must be 1–1,000; got {limit}")


@dataclass(frozen=True, slots=True)
class Page(Generic[Row_co, Cursor_co]):
    """Some rows of a list, and the ``before`` of the next page, if there is one."""

    items: tuple[Row_co, ...]
    next: Cursor_co | None
