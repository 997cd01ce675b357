"""Pages of rows that end by their size, so that no list holds many megabytes (spec 5, P36)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Row = TypeVar("_Row", bound="DataclassInstance")
_OTHER = 16
"""The size that a value counts with if it is no text."""


def size_of(values: Iterable[object]) -> int:
    """Return about the size of a row's values."""
    return sum([len(value) if isinstance(value, (str, bytes)) else _OTHER for value in values])


def fitting(sizes: Iterable[int], max_bytes: int | None) -> int:
    """Return the number of rows on a page: the first ones that fit together, and one at least."""
    count = total = 0
    for size in sizes:
        total += size
        if count and max_bytes is not None and total > max_bytes:
            break
        count += 1
    return count


def page_of(rows: Sequence[_Row], limit: int, max_bytes: int | None) -> tuple[tuple[_Row, ...], bool]:
    """Return the first of these rows, and whether there are more."""
    items = tuple(rows[:limit])
    if max_bytes is not None:
        items = items[: fitting(map(_size, items), max_bytes)]
    return items, len(items) < len(rows)


def _size(row: DataclassInstance) -> int:
    values = [getattr(row, field.name) for field in fields(row)]
    return size_of(value if isinstance(value, str) or value is None else str(value) for value in values)
