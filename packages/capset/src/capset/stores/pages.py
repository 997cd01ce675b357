"""Pages of rows that are limited by size, so that no list holds many megabytes (spec 5, P36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from capset.stores.base.pages import Page, Query

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    class _RowWithId(DataclassInstance, Protocol):
        @property
        def id(self) -> str: ...


_Row = TypeVar("_Row", bound="DataclassInstance")
_IdRow = TypeVar("_IdRow", bound="_RowWithId")


def size_of(values: Iterable[object]) -> int:
    """Return the approximate size of a row's values. One that is neither text nor bytes counts as 16."""
    return sum([len(value) if isinstance(value, (str, bytes)) else 16 for value in values])


def count_fitting(sizes: Iterable[int], max_bytes: int | None) -> int:
    """Return how many of the first rows fit on one page. At least one row does, if there are any."""
    count = total = 0
    for size in sizes:
        total += size
        if count and max_bytes is not None and total > max_bytes:
            break
        count += 1
    return count


def filters_of(query: Query[Any], names: Iterable[str]) -> dict[str, Any]:  # values of several types
    """Return the filters among ``names`` that a query sets."""
    return {name: value for name in names if (value := getattr(query, name)) is not None}


def page_of(rows: Sequence[_Row], limit: int, max_bytes: int | None) -> tuple[tuple[_Row, ...], bool]:
    """Return the rows of the first page, and whether there are more rows."""
    items = tuple(rows[:limit])
    if max_bytes is not None:
        items = items[: count_fitting(map(_size, items), max_bytes)]
    return items, len(items) < len(rows)


def page_by_id(
    rows: Iterable[_IdRow], query: Query, filters: Mapping[str, object], *, oldest_first: bool = False
) -> Page[_IdRow]:
    """Return a query's page of the rows whose fields have the values in ``filters``, in the order of their ids."""
    before = query.before
    matching = [
        row
        for row in sorted(rows, key=lambda row: row.id, reverse=not oldest_first)
        if (before is None or (row.id > before if oldest_first else row.id < before))
        and all(getattr(row, name) == value for name, value in filters.items())
    ]
    items, has_more = page_of(matching, query.limit, query.max_bytes)
    return Page(items, items[-1].id if has_more else None)


def _size(row: DataclassInstance) -> int:
    values = [getattr(row, field.name) for field in fields(row)]
    return size_of(value if isinstance(value, str) or value is None else str(value) for value in values)
