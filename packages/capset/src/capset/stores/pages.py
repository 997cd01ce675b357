"""Pages of rows that are limited by size, so that no list holds many megabytes (spec 5, P36)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Row = TypeVar("_Row", bound="DataclassInstance")
_OTHER = 16
"""The size counted for a value that is neither text nor bytes."""


def size_of(values: Iterable[object]) -> int:
    """Return the approximate size of a row's values."""
    return sum([len(value) if isinstance(value, (str, bytes)) else _OTHER for value in values])


def fitting(sizes: Iterable[int], max_bytes: int | None) -> int:
    """Return how many of the first rows fit on one page. At least one row does, if there are any."""
    count = total = 0
    for size in sizes:
        total += size
        if count and max_bytes is not None and total > max_bytes:
            break
        count += 1
    return count


def page_of(rows: Sequence[_Row], limit: int, max_bytes: int | None) -> tuple[tuple[_Row, ...], bool]:
    """Return the rows of the first page, and whether there are more rows."""
    items = tuple(rows[:limit])
    if max_bytes is not None:
        items = items[: fitting(map(_size, items), max_bytes)]
    return items, len(items) < len(rows)


def _size(row: DataclassInstance) -> int:
    values = [getattr(row, field.name) for field in fields(row)]
    return size_of(value if isinstance(value, str) or value is None else str(value) for value in values)
